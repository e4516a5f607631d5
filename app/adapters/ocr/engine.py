"""What an engine is asked, and what it answers: the words of a picture, by their pixels."""

from dataclasses import dataclass
from typing import Protocol

from PIL import Image

from app.adapters.ocr.geometry import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One word and where it stands in the reading order."""

    text: str
    box: Box
    """Pixels of the image."""
    confidence: float
    """0 to 1."""
    line: int
    """Of the page, from 0."""
    block: int
    """The paragraph, from 0."""


class Engine(Protocol):
    def words(self, image: Image.Image, *, language: str, dpi: int) -> list[Found]:
        """The words of a grey image in reading order, whichever way up the page lies."""
        ...
