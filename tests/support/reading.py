"""A file read whole, as a test wants it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from app.domain.filetypes.sniff import Sniffer
from app.domain.filetypes.types import HEAD, PDF, image_type
from app.domain.pages import Page
from app.domain.warnings import DocumentWarning, WarningCode
from app.ports.reading import Mode, Recognizer, UnreadablePage
from app.reading.office.file import TextFile

Written = Callable[[bytes], Path]
"""The fixture that writes bytes to a file, and says to which."""


async def pages_of(
    recognizer: Recognizer, path: Path, *, media_type: str, mode: Mode = Mode.AUTO, language: str = "eng"
) -> list[Page]:
    """In order. Raises what is wrong with a page that can't be read."""
    pages = []
    async with recognizer.open(path, media_type=media_type, language=language, mode=mode) as file:
        async for read in file.pages():
            if isinstance(read, UnreadablePage):
                raise read.fault
            pages.append(read)
    return sorted(pages, key=lambda page: page.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """All that was read of a file."""

    pages: list[Page]
    unreadable: list[UnreadablePage]
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
        media_type = image_type(content[:HEAD]) or PDF
        async with self.recognizer.open(path, media_type=media_type, language="eng", mode=mode) as file:
            read = [page async for page in file.pages()]
            return Read(
                pages=sorted((p for p in read if isinstance(p, Page)), key=lambda page: page.number),
                unreadable=[page for page in read if isinstance(page, UnreadablePage)],
                warnings=list(file.warnings),
            )


def type_of(content: bytes) -> str:
    sniffer = Sniffer(content[:HEAD])
    sniffer.feed(content)
    return sniffer.media_type()


def text_file(content: bytes, *, media_type: str | None = None, max_pages: int = 2000) -> TextFile:
    """A text format, read here rather than in a child: all of it is read when it is opened."""
    with NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return TextFile(Path(file.name), media_type=media_type or type_of(content), language="eng", max_pages=max_pages)


def texts_of(content: bytes) -> list[str]:
    return [page.text for page in text_pages(content)]


def text_pages(content: bytes) -> list[Page]:
    file = text_file(content)
    return [file.read(number, mode=Mode.AUTO) for number in range(1, file.page_count + 1)]


def hiding(content: bytes) -> list[int]:
    """The numbers of pages of which something was left out."""
    return [page.number for page in text_pages(content) if WarningCode.HIDDEN_TEXT in page.warnings]
