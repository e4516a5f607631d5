"""The interface of OCR engines: a picture in, its words with boxes in pixels out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from PIL import Image

from app.reading.geometry import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognizedWord:
    """One word and its place in the reading order."""

    text: str
    box: Box
    """The word's box in pixels of the image."""
    confidence: float
    """A number from 0 to 1."""
    line: int
    """The line's number on the page, from 0."""
    block: int
    """The paragraph's number on the page, from 0."""


RenderFiner = Callable[[float], Image.Image]
"""Returns the same picture enlarged by a factor, or drawn anew if its source has more detail."""


class OcrEngine(Protocol):
    """Finds the words of a picture."""

    def words(
        self, image: Image.Image, *, language: str, dpi: int, finer: RenderFiner | None = None
    ) -> list[RecognizedWord]:
        """The words of a grey image in reading order, in whichever orientation the page lies.

        `finer` draws the image larger if the engine wants that; by default the image is enlarged.
        """
        ...


def mean_confidence(found: Sequence[RecognizedWord]) -> float:
    """The mean confidence; 0 if there are no words."""
    return sum(word.confidence for word in found) / len(found) if found else 0.0
