"""A few words read with doubt may stand on their head: from less than some 200 letters Tesseract can't tell."""

from dataclasses import replace

from PIL import Image

from app.adapters.ocr.engine import Engine, Finer, Found, certainty
from app.adapters.ocr.geometry import quarter_turned

_DOUBTFUL = 0.7
"""Mean confidence. Lines of print read upside down have 0.4, a number 0.6, upright ones 0.96."""
_FEW = 80
"""Words. With more the orientation is told well, and reading them again would take as long as a page."""


class UpsideDown:
    """An Engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def words(self, image: Image.Image, *, language: str, dpi: int, finer: Finer | None = None) -> list[Found]:
        found = self._engine.words(image, language=language, dpi=dpi, finer=finer)
        if not found or len(found) > _FEW or certainty(found) >= _DOUBTFUL:
            return found
        again = self._engine.words(image.transpose(Image.Transpose.ROTATE_180), language=language, dpi=dpi)
        if certainty(again) <= certainty(found):
            return found
        return [replace(word, box=quarter_turned(word.box, quarters=2, size=image.size)) for word in again]
