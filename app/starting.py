"""The start and the life of the service: the guard, the runtime, the first answer of each dependency, then the work.

Unsafe settings end it with 78. A dependency that can't be reached says nothing about the settings: it is waited for.
"""

import asyncio
import logging
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import NoReturn, TypeVar

import structlog
from starlette.datastructures import State

from app import guard, local
from app.bootstrap import Runtime, open_runtime
from app.domain.errors import DairaError, Invalid, Misconfigured, Unavailable
from app.guard import EXIT_REFUSED
from app.settings import Environment, Settings
from app.telemetry import Metrics, RepeatedEvents, logs_for_people
from app.tracing import Spans

log = structlog.get_logger()
T = TypeVar("T")

EXIT_FAILED = 1
EXIT_AWAY = 75
"""EX_TEMPFAIL of sysexits.h: DAIRA_START_TIMEOUT has passed."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between two tries, growing from the one to the other. Service is back within 10 s of the dependency."""

PATIENCE = 3.0
"""Seconds for each dependency to answer, as in /readyz."""

FIRST_TRY = 20.0
"""Seconds after which the process answers /healthz, even if a dependency has neither answered nor refused by then."""


class Start:
    """One start, run as a task of its own while the program answers /healthz and /readyz."""

    def __init__(self, settings: Settings, metrics: Metrics, spans: Spans, *, state: State) -> None:
        """`state.runtime` is set when the guard is content and everything is open; it is None until then."""
        self._settings = settings
        self.metrics = metrics
        self._spans = spans
        self._state = state
        self._tried = asyncio.Event()
        self._repeated = RepeatedEvents()
        self.missing: dict[str, str] = {}
        """The reason by dependency that is waited for."""
        self.ready: Callable[[], Awaitable[object]] = _nothing
        """Called once, when all dependencies have answered."""
        self.failed: Callable[[BaseException], object] = end
        """Called with what the process is to end with."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Enter as soon as requests can be answered, or a dependency is known to be away. Leaving ends the service."""
        life = asyncio.create_task(self._live(), name="service")
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_TRY):
                    await self._tried.wait()
            yield
        finally:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                await self._start(stack)
                await asyncio.Event().wait()
        except Exception as error:  # noqa: BLE001 - the end of the process, whatever the reason
            self.failed(error)
        except SystemExit as status:
            self.failed(status)
        finally:
            self._tried.set()

    async def _start(self, stack: AsyncExitStack) -> None:
        limit = asyncio.timeout(self._settings.start_timeout or None)
        try:
            async with limit:
                runtime = await self._open(stack)
                await asyncio.gather(*(self._reach(name, _answer(ping)) for name, ping in runtime.pings.items()))
        except TimeoutError:
            if not limit.expired():
                raise
            log.error("start_timed_out", seconds=self._settings.start_timeout, not_ready=self.missing)  # noqa: TRY400 - no traceback: the reason is in `not_ready`
            raise SystemExit(EXIT_AWAY) from None
        # Only now: without its queue a worker gets no job, and without the documents' bytes a job would fail.
        if runtime.worker is not None:
            runtime.worker.start()
            stack.push_async_callback(runtime.worker.stop)
        await self.ready()

    async def _open(self, stack: AsyncExitStack) -> Runtime:
        try:
            if self._settings.env is Environment.PRODUCTION:
                refuse(await self._reach("database", lambda: guard.faults(self._settings)), self._settings)
            located = await stack.enter_async_context(local.with_database(self._settings))
            runtime = await self._reach("service", lambda: self._opened(located, stack))
        except (Misconfigured, Invalid) as error:
            refuse([str(error)], self._settings)
            raise
        self._state.runtime = runtime
        self._tried.set()
        return runtime

    async def _opened(self, settings: Settings, stack: AsyncExitStack) -> Runtime:
        async with AsyncExitStack() as attempt:
            opening = open_runtime(settings, self.metrics, spans=self._spans)
            runtime = await attempt.enter_async_context(opening)
            stack.push_async_callback(attempt.pop_all().aclose)
            return runtime

    async def _reach(self, name: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer. Raises Misconfigured, which is one."""
        pause = FIRST_PAUSE
        while True:
            try:
                answer = await ask()
            except Misconfigured:
                raise
            except Unavailable as error:
                self._wait_for(name, error)
                # Not all processes at once, when a server comes back.
                await asyncio.sleep(pause * random.uniform(0.7, 1))  # noqa: S311 - nothing secret hangs on it
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                if self.missing.pop(name, None):
                    log.info("dependency_reached", dependency=name)
                return answer

    def _wait_for(self, name: str, error: Unavailable) -> None:
        self.missing[name] = str(error)
        self._tried.set()
        if self._repeated.due(name):
            log.warning("dependency_awaited", dependency=name, reason=str(error), cause=_cause(error))


def refuse(faults: Sequence[str], settings: Settings) -> None:
    """End with status 78 and all faults, for people as a list and else in one event. No fault, no end."""
    if not faults:
        return
    reason = f"daira refuses to start in {settings.env}, {len(faults)} fault(s)"
    if logs_for_people(settings.log_format):
        print(f"{reason}:", *(f"  - {fault}" for fault in faults), sep="\n", file=sys.stderr)  # noqa: T201
    else:
        log.error("start_refused", reason=reason, faults=list(faults))
    raise SystemExit(EXIT_REFUSED)


def end(error: BaseException) -> NoReturn:
    """Leave the task, the loop and the server around them. The reason is logged in the log's own form."""
    # The server would add the traceback of its own end, which says nothing more.
    logging.disable()
    match error:
        case SystemExit():
            raise error
        case DairaError():
            log.error("start_failed", reason=str(error))
        case _:
            log.error("start_failed", exc_info=error)
    raise SystemExit(EXIT_FAILED) from error


def _answer(ping: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[None]]:
    """A ping whose every failure is waited for: a bucket may be made and a password be set while this runs."""

    async def ask() -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await ping()
        except Exception as error:
            raise Unavailable("no answer in time" if isinstance(error, TimeoutError) else str(error)) from error

    return ask


def _cause(error: BaseException) -> str:
    """The class of the first error, such as ConnectionRefusedError. Its text may hold more than it should."""
    while error.__cause__ is not None:
        error = error.__cause__
    return type(error).__name__


async def _nothing() -> None: ...
