"""Calls of a function in child processes, for work on a tenant's input that may take long."""

import asyncio
from datetime import timedelta
from typing import Any

import structlog

from app.domain.errors import Unavailable
from app.reading.children.file_session import OUT_OF_CPU
from app.reading.children.pool import ChildPool
from app.reading.children.process import ChildDied, ChildFailed

log = structlog.get_logger()

CALL_FAILED = "call_failed"

PROGRAM = "app.reading.children.function_child"
MEMORY_BYTES = 1 << 30
PATIENCE = timedelta(seconds=20)
"""The time for one call: ten times its CPU time, because the machine may be busy."""
IDLE_LIMIT = timedelta(minutes=5)
"""The time without calls after which the children end. One holds 70 MB, and a fresh one starts in a second."""


class ProcessCaller:
    """Calls a function, `module:name`, with one JSON object, and returns another. A cancel kills the child."""

    def __init__(self, function: str, *, children: int, cpu: timedelta) -> None:
        """`cpu` is the CPU time that one call may take."""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False
        setup = {"function": function, "memory_bytes": MEMORY_BYTES, "cpu_seconds": cpu.total_seconds()}
        self._pool = ChildPool(size=children, setup=setup, program=PROGRAM)

    async def close(self) -> None:
        self._closed = True
        self._stop_idle_timer()
        await self._pool.close()

    async def call(self, argument: dict[str, Any]) -> dict[str, Any] | None:
        self._stop_idle_timer()
        try:
            async with self._pool.slot() as slot:
                child = await slot.child()
                child.files += 1
                return await child.ask(argument, within=PATIENCE)
        except ChildDied as death:
            if death.how == OUT_OF_CPU:
                return None
            log.warning(CALL_FAILED, how=death.how)
            raise Unavailable("the check of the request was ended; try again in a few seconds") from death
        except (ChildFailed, TimeoutError, RuntimeError, ConnectionResetError) as error:
            log.exception(CALL_FAILED)
            raise Unavailable("the request can't be checked just now; try again in a few seconds") from error
        finally:
            if not self._closed:
                loop = asyncio.get_running_loop()
                self._idle_timer = loop.call_later(IDLE_LIMIT.total_seconds(), self._pool.dismiss_idle)

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
