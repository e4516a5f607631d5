"""A recognizer and a renderer that return blank pages without reading the file and without child processes."""

import struct
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from app.domain.errors import NotFound
from app.domain.filetypes.types import IMAGES, PDF
from app.domain.pages import Page, Source
from app.domain.warnings import DocumentWarning
from app.ports.reading import Mode, OpenFile, UnreadablePage

_A4 = (595.28, 841.89)


class NullRecognizer:
    """Recognizes every file as `page_count` blank pages of A4. The file is never opened."""

    is_usable = True

    def __init__(self, *, page_count: int = 1, languages: frozenset[str] = frozenset({"eng"})) -> None:
        self._page_count = page_count
        self._languages = languages

    @asynccontextmanager
    async def open(
        self,
        path: Path,  # noqa: ARG002 - the port's signature
        *,
        media_type: str,  # noqa: ARG002 - the port's signature
        language: str,
        mode: Mode,  # noqa: ARG002 - the port's signature
        recognition: bool = True,  # noqa: ARG002 - the port's signature
    ) -> AsyncIterator[OpenFile]:
        yield _BlankFile(page_count=self._page_count, language=language)

    def languages(self) -> frozenset[str]:
        return self._languages

    async def probe(self) -> None:
        """Do nothing: nothing has to be installed."""

    async def probe_languages(self) -> None:
        """Do nothing, as `probe`."""


@dataclass
class _BlankFile:
    page_count: int
    language: str
    warnings: Sequence[DocumentWarning] = ()

    async def pages(self, numbers: Iterable[int] | None = None) -> AsyncGenerator[Page | UnreadablePage]:
        for number in range(1, self.page_count + 1) if numbers is None else numbers:
            if 1 <= number <= self.page_count:
                yield self._page(number)

    def _page(self, number: int) -> Page:
        return Page(
            number=number,
            text="",
            source=Source.TEXT_LAYER,
            confidence=None,
            width=_A4[0],
            height=_A4[1],
            rotation=0,
            language=self.language,
        )


class NullRenderer:
    """Renders every page blank. The file's bytes are consumed and ignored."""

    version = "null"

    def __init__(self, *, page_count: int = 1) -> None:
        self._page_count = page_count

    def renders(self, media_type: str) -> bool:
        return media_type == PDF or media_type in IMAGES

    async def page_image(
        self,
        content: AsyncIterator[bytes],
        *,
        media_type: str,  # noqa: ARG002 - the port's signature
        number: int,
        width: int,
        into: IO[bytes],
    ) -> None:
        async for _ in content:
            pass
        if not 1 <= number <= self._page_count:
            raise NotFound("there is no such page")
        into.write(_blank_png(width, round(width * _A4[1] / _A4[0])))

    async def searchable(
        self,
        content: AsyncIterator[bytes],
        *,
        media_type: str,  # noqa: ARG002 - the port's signature
        pages: AsyncIterator[Sequence[Page]],
        into: IO[bytes],
    ) -> None:
        """Write the file unchanged."""
        async for chunk in content:
            into.write(chunk)
        async for _ in pages:
            pass


def _blank_png(width: int, height: int) -> bytes:
    """A white PNG with one bit a pixel."""
    rows = (b"\0" + b"\xff" * ((width + 7) // 8)) * height
    chunks = (
        (b"IHDR", struct.pack(">2I5B", width, height, 1, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
