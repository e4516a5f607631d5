"""Tesseract: grey pixels in, words with boxes out.

User bytes are never handed to it, only decoded pixels: its wheel bundles old codecs.
"""

from collections.abc import Iterator
from pathlib import Path

import tesserocr
from PIL import Image

from app.adapters.ocr.engine import Found
from app.adapters.ocr.scrub import scrubbed

_MOST_LOADED = 3
"""Language models kept in memory (10 to 40 MB each)."""
_WORD_LEVEL = "5"
_TSV_COLUMNS = 12


class Tesseract:
    """An Engine."""

    def __init__(self, *, tessdata: Path) -> None:
        self._tessdata = tessdata
        self._loaded: dict[str, tesserocr.PyTessBaseAPI] = {}
        # Orientation detection needs a model of its own; without it pages must come upright.
        has_osd = (tessdata / "osd.traineddata").is_file()
        self._layout = tesserocr.PSM.AUTO_OSD if has_osd else tesserocr.PSM.AUTO

    def load(self, language: str) -> tesserocr.PyTessBaseAPI:
        """Have a language ready: the first page in it is then no slower than the next."""
        if language not in self._loaded:
            while len(self._loaded) >= _MOST_LOADED:
                self._loaded.pop(next(iter(self._loaded))).End()
            self._loaded[language] = tesserocr.PyTessBaseAPI(path=f"{self._tessdata}/", lang=language, psm=self._layout)
        return self._loaded[language]

    def words(self, image: Image.Image, *, language: str, dpi: int) -> list[Found]:
        """The words of a grey image in reading order, whichever way up the page lies."""
        api = self.load(language)
        try:
            api.SetImageBytes(image.tobytes(), image.width, image.height, 1, image.width)
            api.SetSourceResolution(dpi)
            if not api.Recognize(0):
                raise RuntimeError("Tesseract gave up on a page")
            return list(_parsed(api.GetTSVText(0)))
        finally:
            api.Clear()


def _parsed(tsv: str) -> Iterator[Found]:
    """Columns: level, page, block, paragraph, line, word, left, top, width, height, confidence, text."""
    lines: dict[tuple[str, ...], int] = {}
    blocks: dict[tuple[str, ...], int] = {}
    for row in tsv.split("\n"):
        fields = row.split("\t")
        if len(fields) < _TSV_COLUMNS or fields[0] != _WORD_LEVEL or not (text := scrubbed(fields[11]).strip()):
            continue
        left, top, width, height = map(int, fields[6:10])
        yield Found(
            text=text,
            box=(left, top, left + width, top + height),
            confidence=round(min(max(float(fields[10]) / 100, 0), 1), 4),
            line=lines.setdefault(tuple(fields[2:5]), len(lines)),
            block=blocks.setdefault(tuple(fields[2:4]), len(blocks)),
        )
