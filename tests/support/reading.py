"""A file read whole, as a test wants it."""

from dataclasses import dataclass
from pathlib import Path

from app.domain.media import HEAD, PDF, sniff
from app.domain.pages import Page
from app.domain.warnings import DocumentWarning
from app.ports.ocr import Mode, Recognizer, Unreadable


async def pages_of(
    recognizer: Recognizer, path: Path, *, media_type: str, mode: Mode = Mode.AUTO, language: str = "eng"
) -> list[Page]:
    """In order. Raises what is wrong with a page that can't be read."""
    pages = []
    async with recognizer.open(path, media_type=media_type, language=language, mode=mode) as file:
        async for read in file.pages():
            if isinstance(read, Unreadable):
                raise read.fault
            pages.append(read)
    return sorted(pages, key=lambda page: page.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """All that was read of a file."""

    pages: list[Page]
    unreadable: list[Unreadable]
    warnings: list[DocumentWarning]

    @property
    def page(self) -> Page:
        """The only one."""
        [page] = self.pages
        return page

    @property
    def text(self) -> str:
        return "\n\n".join(page.text for page in self.pages)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads bytes, through a file in a folder of the test's."""

    recognizer: Recognizer
    folder: Path

    async def read(self, content: bytes, *, mode: Mode = Mode.AUTO) -> Read:
        """Raises what is wrong with the file. What nobody would take for an image is read as a PDF."""
        path = self.folder / "upload"
        path.write_bytes(content)
        media_type = sniff(content[:HEAD]) or PDF
        async with self.recognizer.open(path, media_type=media_type, language="eng", mode=mode) as file:
            read = [page async for page in file.pages()]
            return Read(
                pages=sorted((p for p in read if isinstance(p, Page)), key=lambda page: page.number),
                unreadable=[page for page in read if isinstance(page, Unreadable)],
                warnings=list(file.warnings),
            )
