"""The port of OCR engines: a picture in, its words with their pixels out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from PIL import Image

from app.reading.geometry import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognizedWord:
    """One word and where it stands in the reading order."""

    text: str
    box: Box
    """Pixels of the image."""
    confidence: float
    """0 to 1."""
    line: int
    """The word's line on the page, from 0."""
    block: int
    """The paragraph, from 0."""


RenderFiner = Callable[[float], Image.Image]
"""The same picture so many times as large: enlarged, or drawn anew where its source has more to show."""


class OcrEngine(Protocol):
    def words(
        self, image: Image.Image, *, language: str, dpi: int, finer: RenderFiner | None = None
    ) -> list[RecognizedWord]:
        """The words of a grey image in reading order, whichever way up the page lies.

        `finer` draws the image larger, should that be wanted; by default it is enlarged.
        """
        ...


def mean_confidence(found: Sequence[RecognizedWord]) -> float:
    """Mean confidence; 0 where nothing was found."""
    return sum(word.confidence for word in found) / len(found) if found else 0.0
