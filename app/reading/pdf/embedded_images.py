"""Recognition of pictures on pages. Each is read once, because every page of a file may have the same letterhead."""

from collections.abc import Sequence
from hashlib import sha256
from itertools import groupby

from app.domain.pages import Source, Word
from app.reading.engine import OcrEngine, RecognizedWord
from app.reading.geometry import Box, clipped_box
from app.reading.image.scan import recognised
from app.reading.pdf.rendering import RenderedPage

_MOST_REMEMBERED = 32
_LEAST_SURE = 0.5
"""Least mean confidence of a block. Text that OCR reads into a photograph has less, a poor scan more."""


class EmbeddedImages:
    """Reads the pictures of one file and remembers the last ones."""

    def __init__(self, engine: OcrEngine, *, language: str) -> None:
        self._engine = engine
        self._language = language
        self._read: dict[bytes, list[RecognizedWord]] = {}

    def words(self, picture: RenderedPage, *, within: Box, after: Sequence[Word], dpi: int) -> list[Word]:
        """The picture's words on the page, in reading order. Line and block numbers continue those of `after`."""
        line = after[-1].line + 1 if after else 0
        block = after[-1].block + 1 if after else 0
        x0, y0 = picture.corner
        words = []
        for found in _credible(self._found(picture, dpi=dpi)):
            left, top, right, bottom = (edge / picture.scale for edge in found.box)
            words.append(
                Word(
                    text=found.text,
                    box=clipped_box((x0 + left, y0 + top, x0 + right, y0 + bottom), width=within[2], height=within[3]),
                    confidence=found.confidence,
                    source=Source.OCR,
                    line=line + found.line,
                    block=block + found.block,
                )
            )
        return words

    def _found(self, picture: RenderedPage, *, dpi: int) -> list[RecognizedWord]:
        known_by = sha256(repr(picture.pixels.shape).encode() + picture.pixels.tobytes()).digest()
        if known_by not in self._read:
            if len(self._read) >= _MOST_REMEMBERED:
                self._read.pop(next(iter(self._read)))
            self._read[known_by] = recognised(self._engine, picture.image, language=self._language, dpi=dpi)
        return self._read[known_by]


def _credible(words: Sequence[RecognizedWord]) -> list[RecognizedWord]:
    blocks = [list(block) for _, block in groupby(words, key=lambda word: word.block)]
    return [word for block in blocks if sum(w.confidence for w in block) >= _LEAST_SURE * len(block) for word in block]
