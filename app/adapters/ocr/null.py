"""The engine that reads nothing: pages without text, at no cost and without child processes."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.domain.pages import Page, Source
from app.domain.warnings import DocumentWarning
from app.ports.ocr import Mode, OpenFile, Unreadable

_A4 = (595.28, 841.89)


class NullRecognizer:
    """A Recognizer. Every file has `page_count` pages of A4; the file is never looked at."""

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
    ) -> AsyncIterator[OpenFile]:
        yield _Blank(page_count=self._page_count, language=language)

    def languages(self) -> frozenset[str]:
        return self._languages


@dataclass
class _Blank:
    page_count: int
    language: str
    warnings: Sequence[DocumentWarning] = ()

    async def pages(self, numbers: Iterable[int] | None = None) -> AsyncGenerator[Page | Unreadable]:
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
