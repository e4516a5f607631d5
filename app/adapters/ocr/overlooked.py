"""Cells of a table that Tesseract's page layout has dropped: lone digits, which it takes for specks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import numpy.typing as npt
from PIL import Image

from app.adapters.ocr.engine import Found
from app.adapters.ocr.geometry import Box

_MARGIN = 2
_PAPER = 10
"""Pixels of paper around what is read alone: without some Tesseract reads nothing."""
_SURE = 0.7
"""Confidence below which it is a speck after all."""
_LIKE_OTHERS = (0.6, 1.5)
"""Height, in those of the known words."""
_MOST = 100
"""Cells of a table that are read alone, at 10 ms each."""
_Mask = npt.NDArray[np.bool_]

Alone = Callable[[Image.Image], Found | None]
"""Reads a picture of one word."""


def overlooked(image: Image.Image, known: Sequence[Found], *, within: Box, read: Alone) -> Iterator[Found]:
    """Words of the upright page in that box which are not among the known ones."""
    left, top, right, bottom = (round(edge) for edge in within)
    grey = np.asarray(image.crop((left, top, right, bottom))).copy()
    paper = int(np.median(grey))
    for word in known:
        x0, y0, x1, y1 = (round(edge) for edge in word.box)
        rows = slice(max(y0 - top - _MARGIN, 0), max(y1 - top + _MARGIN, 0))
        grey[rows, max(x0 - left - _MARGIN, 0) : max(x1 - left + _MARGIN, 0)] = paper
    least, most = (factor * median(word.box[3] - word.box[1] for word in known) for factor in _LIKE_OTHERS)
    spots = [spot for spot in _spots(grey < paper / 2) if least <= spot[3] - spot[1] <= most]
    for x0, y0, x1, y1 in spots[:_MOST]:
        cell = Image.new("L", (x1 - x0 + 2 * _PAPER, y1 - y0 + 2 * _PAPER), paper)
        cell.paste(Image.fromarray(grey[y0:y1, x0:x1]), (_PAPER, _PAPER))
        found = read(cell)
        if found is not None and found.confidence >= _SURE and found.text.isalnum():
            yield replace(found, box=(x0 + left, y0 + top, x1 + left, y1 + top))


def _spots(ink: _Mask) -> Iterator[tuple[int, int, int, int]]:
    """Boxes around ink, parted where whole rows of pixels are blank, and then columns as wide as the row is high."""
    for top, bottom in _runs(np.any(ink, axis=1), gap=1):
        for x0, x1 in _runs(np.any(ink[top:bottom], axis=0), gap=bottom - top):
            [(y0, y1)] = _runs(np.any(ink[top:bottom, x0:x1], axis=1), gap=bottom - top)
            yield x0, top + y0, x1, top + y1


def _runs(marked: _Mask, *, gap: int) -> list[tuple[int, int]]:
    places = np.flatnonzero(marked)
    if not places.size:
        return []
    parts = np.split(places, np.flatnonzero(np.diff(places) > gap) + 1)
    return [(int(part[0]), int(part[-1]) + 1) for part in parts]
