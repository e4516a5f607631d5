"""What recognition yields: pages of words, measured on the page as a reader sees it."""

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """Where a page's text came from."""

    TEXT_LAYER = "text_layer"
    OCR = "ocr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    text: str
    box: tuple[float, float, float, float]
    """x0, y0, x1, y1 in points (1/72 inch) of the page as displayed (rotated, cropped); origin top left."""
    confidence: float
    """0 to 1; a text layer's words have 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    number: int
    """From 1."""
    text: str
    source: Source
    confidence: float | None
    """Mean of the words' confidence, 0 to 1; None without words."""
    width: float
    """Points, as displayed."""
    height: float
    rotation: int
    """Degrees clockwise that the stored page was turned to be displayed: 0, 90, 180 or 270."""
    language: str
    words: tuple[Word, ...] = ()
