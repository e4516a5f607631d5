"""The recognition port: a file in, pages out, each as soon as it is read."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

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
class Unreadable:
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

    def pages(self, numbers: Iterable[int] | None = None) -> AsyncGenerator[Page | Unreadable]:
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
