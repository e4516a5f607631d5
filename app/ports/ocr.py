"""The recognition port: a file in, pages out, one at a time."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from app.domain.pages import Page


class Mode(StrEnum):
    """Which pages are read by OCR."""

    AUTO = "auto"
    """Those without a usable text layer."""
    FORCE = "force"
    """All."""
    SKIP = "skip"
    """None: the text layer or nothing."""


class OpenFile(Protocol):
    """One file, open for reading page by page."""

    page_count: int

    def pages(self, numbers: range | None = None) -> AsyncIterator[Page]:
        """Each page in order, as soon as it is read; `numbers` (from 1) restricts them.

        Raises DocumentFault where the file is to blame; ConnectionResetError when recognition was closed under it.
        """
        ...


class Recognizer(Protocol):
    def open(self, path: Path, *, media_type: str, language: str, mode: Mode) -> AbstractAsyncContextManager[OpenFile]:
        """Open a file for reading; leaving the context frees the reader, and ends it if it is still at work.

        Cancelling the task that reads ends the work at once.
        Raises DocumentFault (encrypted, corrupt, empty, too_many_pages, too_large, unsupported, timeout).
        """
        ...

    def languages(self) -> frozenset[str]:
        """The languages that can be asked for, as ISO 639-2 codes (`eng`)."""
        ...
