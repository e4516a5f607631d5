"""The recognition port turns a file into pages; the rendering port makes page images and searchable copies.

Recognition passes each page on as soon as it is read.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Protocol

from app.domain.errors import DocumentFault
from app.domain.pages import Page
from app.domain.warnings import DocumentWarning


class Mode(StrEnum):
    """The pages that OCR reads."""

    AUTO = "auto"
    """Pages, or parts of pages, that have no trustworthy text of their own."""
    FORCE = "force"
    """All pages."""
    SKIP = "skip"
    """No pages: the text layer or nothing."""


@dataclass(frozen=True, slots=True)
class UnreadablePage:
    """A page that can't be read, in a file that can."""

    number: int
    fault: DocumentFault


class NeedsRecognition(UnreadablePage):
    """A page that only OCR can read, in a file that was opened without it."""


class OpenFile(Protocol):
    """A file that is open for reading page by page."""

    @property
    def page_count(self) -> int: ...

    @property
    def warnings(self) -> Sequence[DocumentWarning]:
        """Warnings about the file as a whole."""
        ...

    def pages(self, numbers: Iterable[int] | None = None) -> AsyncGenerator[Page | UnreadablePage]:
        """Yield these pages, by default all, as soon as they are read.

        The order varies, because several are read at a time. A number is taken from `numbers` only when its page is
        about to be read, so an iterator that ends early leaves the rest unread.
        Raises ConnectionResetError when recognition was closed meanwhile.
        """
        ...


class Recognizer(Protocol):
    @property
    def is_usable(self) -> bool:
        """False where nothing can be read as far as is known already, without a probe."""
        ...

    def open(
        self, path: Path, *, media_type: str, language: str, mode: Mode, recognition: bool = True
    ) -> AbstractAsyncContextManager[OpenFile]:
        """Open a file for reading. Leaving the context frees its readers, and ends those that are still at work.

        Without `recognition` the readers are others, that do no OCR: pages that need it come as NeedsRecognition.

        Cancelling the task that reads ends the work at once. Raises DocumentFault (encrypted, corrupt, empty,
        too_many_pages, too_large, unsupported, timeout), and Unavailable for a language that is not installed here.
        """
        ...

    def languages(self) -> frozenset[str]:
        """Return the supported languages, as ISO 639-2 codes (`eng`)."""
        ...

    async def probe(self) -> None:
        """Recognise a picture of Daira's own. Raises an error for the operator to read if that is not possible."""
        ...

    async def probe_languages(self) -> None:
        """Raises an error for the operator to read if a file was lately to be read in a language that is missing."""
        ...


class Renderer(Protocol):
    """Renders files of the types that `renders` accepts. `content` has a file's bytes; the result is written to `into`.

    Cancelling ends the work at once; the output so far is unusable. Raises DocumentFault for a faulty file, Unavailable
    for a fault of the service.
    """

    version: str
    """The renderer's version. Another version may draw the same page in other bytes."""

    def renders(self, media_type: str) -> bool:
        """Return True if files of the type have pages that can be drawn."""
        ...

    async def page_image(
        self, content: AsyncIterator[bytes], *, media_type: str, number: int, width: int, into: IO[bytes]
    ) -> None:
        """Write a PNG of a page as displayed, `width` pixels wide, or less where the page is very long.

        Raises NotFound where the file has no such page.
        """
        ...

    async def searchable(
        self,
        content: AsyncIterator[bytes],
        *,
        media_type: str,
        pages: AsyncIterator[Sequence[Page]],
        into: IO[bytes],
    ) -> None:
        """Write a PDF that looks like the file, with the recognised words as invisible text. `pages` come in order."""
        ...
