"""One open file, read by as many children as are free."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import timedelta

import structlog

from app.domain.errors import DocumentFault
from app.domain.pages import Page
from app.domain.warnings import DocumentWarning
from app.ports.reading import Mode, UnreadablePage
from app.reading.children import wire
from app.reading.children.pool import ChildPool, PoolSlot
from app.reading.children.process import ChildDied, ChildProcess

log = structlog.get_logger()

READER_DIED = "reader_died"

OUT_OF_CPU = "SIGPROF"
"""The signal by which a child's own CPU limit ends it."""
_OUT_OF_MEMORY = "SIGABRT"
"""The signal by which C++ ends without memory. A child that read other files may have had less of it."""
_KILLED = "SIGKILL"
"""The signal by which the kernel ends a process that took too much; a second try shows whose fault it was."""


class FileSession:
    """All calls raise DocumentFault."""

    def __init__(self, seat: PoolSlot, *, opening: wire.Message, timeout: timedelta) -> None:
        self.seat = seat
        self._opening = opening
        self._timeout = timeout
        self._opened: wire.Message = {}
        self._opened_in: ChildProcess | None = None

    async def open(self) -> wire.Message:
        """Open the file and return the facts about it as a whole."""
        await self._tried_twice(None, what="the file")
        return self._opened

    async def page(self, number: int, *, mode: Mode) -> wire.Message:
        return await self._tried_twice({"do": "page", "number": number, "mode": mode}, what=f"page {number}")

    async def _tried_twice(self, request: wire.Message | None, *, what: str) -> wire.Message:
        try:
            return await self._tried(request, what=what)
        except ChildDied as death:
            if death.how == _OUT_OF_MEMORY and death.was_fresh:
                raise _fault_of_death(death, what=what) from death
        try:
            return await self._tried(request, what=what)
        except ChildDied as death:
            raise _fault_of_death(death, what=what) from death

    async def _tried(self, request: wire.Message | None, *, what: str) -> wire.Message:
        try:
            return await self._answer(request)
        except ChildDied as death:
            log.warning(READER_DIED, how=death.how, on=what)
            if death.how == OUT_OF_CPU:
                # It would take as long again.
                raise DocumentFault(
                    "timeout", f"Drawing {what} takes too much computing: simplify or split the document."
                ) from death
            raise
        except TimeoutError as error:
            limit = f"{self._timeout.total_seconds():g} s"
            raise DocumentFault(
                "timeout", f"Reading {what} took over {limit}: simplify or split the document."
            ) from error

    async def _answer(self, request: wire.Message | None) -> wire.Message:
        child = await self.seat.child()
        if child is not self._opened_in:
            child.files += 1
            self._opened = _checked_answer(await child.ask(self._opening, within=self._timeout))
            self._opened_in = child
        if request is None:
            return {}
        return _checked_answer(await child.ask(request, within=self._timeout))


def _fault_of_death(death: ChildDied, *, what: str) -> DocumentFault:
    if death.how in {_OUT_OF_MEMORY, _KILLED}:
        return DocumentFault(
            "too_large", f"Reading {what} takes too much memory ({death.how}): simplify or split the document."
        )
    return DocumentFault(
        "corrupt",
        f"The reader died twice on {what} ({death.how}): save the document anew, or upload its pages as images.",
    )


def _checked_answer(answer: wire.Message) -> wire.Message:
    if "fault" in answer:
        raise DocumentFault(answer["fault"], answer["message"])
    return answer


PageTask = asyncio.Task[Page | UnreadablePage]


class DocumentSession:
    """An OpenFile. It has one seat for certain; others help while nobody waits for them."""

    def __init__(
        self, pool: ChildPool, seat: PoolSlot, *, opening: wire.Message, mode: Mode, timeout: timedelta
    ) -> None:
        self._pool = pool
        self._opening = opening
        self._mode = mode
        self._timeout = timeout
        self._own = FileSession(seat, opening=opening, timeout=timeout)
        self._helpers: list[FileSession] = []
        self._working: dict[PageTask, FileSession] = {}
        self._is_shared = False
        """True when it is worth opening the file in several children."""
        self.page_count = 0
        self.warnings: Sequence[DocumentWarning] = ()

    async def open(self) -> None:
        opened = await self._own.open()
        self.page_count = opened["page_count"]
        self.warnings = wire.unpacked_warnings(opened["warnings"])
        self._is_shared = opened["shared"]

    async def pages(self, numbers: Iterable[int] | None = None) -> AsyncGenerator[Page | UnreadablePage]:
        everything = range(1, self.page_count + 1)
        waiting = deque(everything if numbers is None else [number for number in numbers if number in everything])
        await self._assign(waiting)
        while self._working:
            ended, _ = await asyncio.wait(self._working, return_when=asyncio.FIRST_COMPLETED)
            for work in ended:
                del self._working[work]
            # The next pages are on their way before anybody looks at these.
            await self._assign(waiting)
            for work in ended:
                yield work.result()

    async def close(self) -> None:
        """End what is still at work, and free the seats of helpers."""
        for work in self._working:
            work.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        self._working.clear()
        for helper in list(self._helpers):
            await self._dismiss(helper)

    async def _assign(self, waiting: deque[int]) -> None:
        """A page for everybody who is free; seats that others wait for, and those without a page, are given back."""
        busy = set(self._working.values())
        if waiting and self._own not in busy:
            self._start(self._own, waiting)
        for helper in [helper for helper in self._helpers if helper not in busy]:
            if waiting and not self._pool.is_wanted:
                self._start(helper, waiting)
            else:
                await self._dismiss(helper)
        while waiting and self._is_shared and (seat := await self._pool.spare()):
            helper = FileSession(seat, opening=self._opening, timeout=self._timeout)
            self._helpers.append(helper)
            self._start(helper, waiting)

    def _start(self, desk: FileSession, waiting: deque[int]) -> None:
        self._working[asyncio.create_task(self._read(desk, waiting.popleft()))] = desk

    async def _dismiss(self, helper: FileSession) -> None:
        self._helpers.remove(helper)
        await self._pool.give_back(helper.seat)

    async def _read(self, desk: FileSession, number: int) -> Page | UnreadablePage:
        try:
            return wire.unpacked_words((await desk.page(number, mode=self._mode))["page"])
        except DocumentFault as fault:
            return UnreadablePage(number, fault)
