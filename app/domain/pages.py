"""Pages of words, the result of recognition, measured on the page as a reader sees it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.domain.errors import DocumentFault
from app.domain.warnings import WarningCode


class Source(StrEnum):
    """The origin of a text."""

    TEXT_LAYER = "text_layer"
    """The file contains the text, as a PDF's text layer or a letter's paragraphs."""
    OCR = "ocr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    text: str
    box: tuple[float, float, float, float]
    """x0, y0, x1, y1 in points (1/72 inch) of the page as displayed (rotated, cropped); origin top left."""
    confidence: float
    """0 to 1; a text layer's words have 1."""
    source: Source
    line: int
    """The line's number on the page, in reading order; from 0."""
    block: int
    """The paragraph that the line belongs to; from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    number: int
    """Counted from 1."""
    text: str
    """The words joined by `text_of`, on a page that has words."""
    source: Source
    """OCR if any of the page's words comes from OCR."""
    confidence: float | None
    """Mean of the words' confidence, 0 to 1; None without words."""
    width: float | None
    """Points, as displayed; None where the format has no page size."""
    height: float | None
    rotation: int
    """Degrees clockwise that the stored page was turned to be displayed: 0, 90, 180 or 270."""
    language: str
    words: tuple[Word, ...] = ()
    warnings: tuple[WarningCode, ...] = ()


def text_of(words: Sequence[Word]) -> str:
    """Join words by a space, lines by a newline, and blocks by an empty line."""
    parts: list[str] = []
    line = block = -1
    for word in words:
        if parts:
            parts.append("\n\n" if word.block != block else "\n" if word.line != line else " ")
        parts.append(word.text)
        line, block = word.line, word.block
    return "".join(parts)


def source_of(words: Sequence[Word], *, otherwise: Source) -> Source:
    """Return OCR if any word comes from there. `otherwise` is the source of a page without words."""
    if not words:
        return otherwise
    return Source.OCR if any(word.source is Source.OCR for word in words) else Source.TEXT_LAYER


def confidence_of(words: Sequence[Word]) -> float | None:
    return round(sum(word.confidence for word in words) / len(words), 4) if words else None


def chosen_pages(pages: str | None, *, page_count: int) -> list[int]:
    """Return the page numbers that `1-3,7` names, in order; `3-1` equals `1-3`, and None names all.

    Raises DocumentFault (empty) where the file has none of them.
    """
    if pages is None:
        return list(range(1, page_count + 1))
    numbers: set[int] = set()
    for part in pages.split(","):
        ends = [int(end) for end in part.split("-")]
        numbers.update(range(max(min(ends), 1), min(max(ends), page_count) + 1))
    if not numbers:
        raise DocumentFault("empty", f"The document has {page_count} pages, and none of those asked for ({pages}).")
    return sorted(numbers)
