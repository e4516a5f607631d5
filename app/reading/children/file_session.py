"""Files opened in child processes: a crash is retried once in a fresh child, a hang ends with the timeout.

`DocumentSession` reads one document in as many children as are free.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from datetime import timedelta

import structlog

from app.domain.errors import DocumentFault
from app.domain.pages import Page
from app.domain.warnings import DocumentWarning
from app.ports.reading import Mode, NeedsRecognition, UnreadablePage
from app.reading.children import wire
from app.reading.children.pool import ChildPool, PoolSlot
from app.reading.children.process import ChildDied, ChildProcess

log = structlog.get_logger()

READER_DIED = "reader_died"

OUT_OF_CPU = "SIGPROF"
"""The signal by which a child's own CPU limit ends it."""
_OUT_OF_MEMORY = "SIGABRT"
"""The signal by which C++ ends without memory. A child that has read other files may have had less memory left."""
_KILLED = "SIGKILL"
"""The signal by which the kernel ends a process for its memory use. A second try shows if the file is to blame."""


class FileSession:
    """Reads one file in one child at a time. All calls raise DocumentFault.

    A crash is retried once in a fresh child. A hang ends with the timeout.
    """

    def __init__(self, slot: PoolSlot, *, opening: wire.Message, timeout: timedelta) -> None:
        self.slot = slot
        self._opening = opening
        self._timeout = timeout
        self._opened: wire.Message = {}
        self._opened_in: ChildProcess | None = None

    async def open(self) -> wire.Message:
        """The answer to opening the file: `page_count`, `warnings`, `shared`."""
        await self._ask_with_retry(None, what="the file")
        return self._opened

    async def page(self, number: int, *, mode: Mode) -> wire.Message:
        return await self._ask_with_retry({"do": "page", "number": number, "mode": mode}, what=f"page {number}")

    async def _ask_with_retry(self, request: wire.Message | None, *, what: str) -> wire.Message:
        try:
            return await self._ask(request, what=what)
        except ChildDied as death:
            if death.how == _OUT_OF_MEMORY and death.was_fresh:
                raise _fault_of_death(death, what=what) from death
        try:
            return await self._ask(request, what=what)
        except ChildDied as death:
            raise _fault_of_death(death, what=what) from death

    async def _ask(self, request: wire.Message | None, *, what: str) -> wire.Message:
        try:
            return await self._answer(request)
        except ChildDied as death:
            log.warning(READER_DIED, how=death.how, on=what)
            if death.how == OUT_OF_CPU:
                # A second try would take as long.
                raise DocumentFault(
                    "timeout", f"Drawing {what} takes too much CPU time: simplify or split the document."
                ) from death
            raise
        except TimeoutError as error:
            limit = f"{self._timeout.total_seconds():g} s"
            raise DocumentFault(
                "timeout", f"Reading {what} took over {limit}: simplify or split the document."
            ) from error

    async def _answer(self, request: wire.Message | None) -> wire.Message:
        child = await self.slot.child()
        if child is not self._opened_in:
            child.files += 1
            self._opened = _checked_answer(await child.ask(self._opening, within=self._timeout))
            self._opened_in = child
        if request is None:
            return {}
        return _checked_answer(await child.ask(request, within=self._timeout))


def _fault_of_death(death: ChildDied, *, what: str) -> DocumentFault:
    if death.how in {_OUT_OF_MEMORY, _KILLED}:
        return DocumentFault("too_large", f"Reading {what} takes too much memory: simplify or split the document.")
    return DocumentFault(
        "corrupt",
        f"The reader died twice on {what}: save the document anew, or upload its pages as images.",
    )


def _checked_answer(answer: wire.Message) -> wire.Message:
    if "fault" in answer:
        raise DocumentFault(answer["fault"], answer["message"])
    return answer


PageTask = asyncio.Task[Page | UnreadablePage]


class DocumentSession:
    """Reads an open file's pages in its own pool slot, and in spare ones while no other file waits for a slot."""

    def __init__(
        self, pool: ChildPool, slot: PoolSlot, *, opening: wire.Message, mode: Mode, timeout: timedelta
    ) -> None:
        self._pool = pool
        self._opening = opening
        self._mode = mode
        self._timeout = timeout
        self._own = FileSession(slot, opening=opening, timeout=timeout)
        self._helpers: list[FileSession] = []
        self._working: dict[PageTask, FileSession] = {}
        self._is_shared = False
        """True if the file is worth opening in several children."""
        self.page_count = 0
        self.warnings: Sequence[DocumentWarning] = ()

    async def open(self) -> None:
        opened = await self._own.open()
        self.page_count = opened["page_count"]
        self.warnings = wire.unpacked_warnings(opened["warnings"])
        self._is_shared = opened["shared"]

    async def pages(self, numbers: Iterable[int] | None = None) -> AsyncGenerator[Page | UnreadablePage]:
        everything = range(1, self.page_count + 1)
        waiting = (number for number in (everything if numbers is None else numbers) if number in everything)
        await self._assign(waiting)
        while self._working:
            ended, _ = await asyncio.wait(self._working, return_when=asyncio.FIRST_COMPLETED)
            for work in ended:
                del self._working[work]
            # Start the next pages before the caller works on these.
            await self._assign(waiting)
            for work in ended:
                yield work.result()

    async def close(self) -> None:
        """Cancel the pages that are still being read, and release the helpers' slots."""
        for work in self._working:
            work.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        self._working.clear()
        for helper in list(self._helpers):
            await self._dismiss(helper)

    async def _assign(self, waiting: Iterator[int]) -> None:
        """Give each free session a page. Helpers without a page, or whose slot another file waits for, release it."""
        busy = set(self._working.values())
        if self._own not in busy:
            self._start(self._own, waiting)
        for helper in [helper for helper in self._helpers if helper not in busy]:
            if self._pool.has_waiters or not self._start(helper, waiting):
                await self._dismiss(helper)
        while self._is_shared and (slot := await self._pool.spare()):
            helper = FileSession(slot, opening=self._opening, timeout=self._timeout)
            self._helpers.append(helper)
            if not self._start(helper, waiting):
                await self._dismiss(helper)
                break

    def _start(self, session: FileSession, waiting: Iterator[int]) -> bool:
        """Give the session the next page. Returns False if there is none."""
        number = next(waiting, None)
        if number is not None:
            self._working[asyncio.create_task(self._read(session, number))] = session
        return number is not None

    async def _dismiss(self, helper: FileSession) -> None:
        self._helpers.remove(helper)
        await self._pool.release(helper.slot)

    async def _read(self, session: FileSession, number: int) -> Page | UnreadablePage:
        try:
            answer = await session.page(number, mode=self._mode)
        except DocumentFault as fault:
            return UnreadablePage(number, fault)
        if "recognition" in answer:
            return NeedsRecognition(number, DocumentFault("unsupported", "Only OCR can read this page."))
        return wire.unpacked_words(answer["page"])
