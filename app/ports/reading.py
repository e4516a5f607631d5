"""The recognition port: a file in, pages out, each as soon as it is read."""

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
    """Which pages are read by OCR."""

    AUTO = "auto"
    """Those, or parts of those, that have no text of their own to be trusted."""
    FORCE = "force"
    """All."""
    SKIP = "skip"
    """None: the text layer or nothing."""


@dataclass(frozen=True, slots=True)
class UnreadablePage:
    """A page that can't be read, in a file that can."""

    number: int
    fault: DocumentFault


class OpenFile(Protocol):
    """One file, open for reading page by page."""

    @property
    def page_count(self) -> int: ...

    @property
    def warnings(self) -> Sequence[DocumentWarning]:
        """About the file as a whole."""
        ...

    def pages(self, numbers: Iterable[int] | None = None) -> AsyncGenerator[Page | UnreadablePage]:
        """These pages, by default all, as soon as they are read: in any order, for several are read at a time.

        Raises ConnectionResetError when recognition was closed under it.
        """
        ...


class Recognizer(Protocol):
    def open(self, path: Path, *, media_type: str, language: str, mode: Mode) -> AbstractAsyncContextManager[OpenFile]:
        """Open a file for reading; leaving the context frees its readers, and ends those that are still at work.

        Cancelling the task that reads ends the work at once.
        Raises DocumentFault (encrypted, corrupt, empty, too_many_pages, too_large, unsupported, timeout).
        """
        ...

    def languages(self) -> frozenset[str]:
        """The languages that can be asked for, as ISO 639-2 codes (`eng`)."""
        ...


class Renderer(Protocol):
    """Of files of the types that `renders` knows. `content` is a file's bytes, `into` takes what is made of it.

    Cancelling ends the work at once. What was written by then is of no use.
    Raises DocumentFault where the file is to blame, Unavailable where we are.
    """

    version: str
    """Another one may draw the same page in other bytes."""

    def renders(self, media_type: str) -> bool:
        """Whether files of the type have pages to look at."""
        ...

    async def page_image(
        self, content: AsyncIterator[bytes], *, media_type: str, number: int, width: int, into: IO[bytes]
    ) -> None:
        """A PNG of a page as displayed, so many pixels wide, or less where it is very long.

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
        """A PDF that looks as the file does, with what was recognised as invisible text. `pages` come in order."""
        ...
