"""A line of text as one strip of pixels, split into words at the gaps between letters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from app.reading.engine import RecognizedWord
from app.reading.faults import scrubbed
from app.reading.geometry import Box, rotated_by_quarters

_INK = 0.35
"""Difference from the paper, as a share of the strip's range of grey, from which a pixel is ink."""
_Grey = npt.NDArray[np.uint8]
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LetterBox:
    """One letter and its place along the line."""

    text: str
    place: float
    """The letter's middle along the line, 0 to 1."""
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStrip:
    """A line's letters and its pixels, turned upright."""

    letters: Sequence[LetterBox]
    """The line's letters, white space included."""
    box: Box
    """The strip's place on the image."""
    quarters: int
    """Quarter turns of the image, counterclockwise, that make the line upright."""
    grey: _Grey
    """The pixels of the box, turned upright."""

    @classmethod
    def cut(cls, image: _Grey, box: tuple[int, int, int, int], *, quarters: int, letters: Sequence[LetterBox]) -> Self:
        x0, y0, x1, y1 = box
        return cls(letters=letters, box=box, quarters=quarters, grey=np.rot90(image[y0:y1, x0:x1], quarters))


def split_words(strip: LineStrip) -> list[RecognizedWord]:
    """The line's words in reading direction, with boxes on the image."""
    words = list(_words(strip.letters))
    ink = _ink(strip.grey)
    cuts = [0, *(_gap(ink, a[-1].place, b[0].place) for a, b in pairwise(words)), ink.shape[1]]
    return [
        RecognizedWord(
            text=scrubbed("".join(letter.text for letter in word)),
            box=_on_image(_around_ink(ink, start, end), strip),
            confidence=round(sum(letter.confidence for letter in word) / len(word), 4),
            line=0,
            block=0,
        )
        for word, (start, end) in zip(words, pairwise(cuts), strict=True)
    ]


def _words(letters: Sequence[LetterBox]) -> Iterator[list[LetterBox]]:
    word: list[LetterBox] = []
    for letter in [*letters, LetterBox(" ", 1, 1)]:
        if not letter.text.isspace():
            word.append(letter)
        elif word:
            yield word
            word = []


def _ink(grey: _Grey) -> _Mask:
    """Pixels of ink: those that differ from most of the strip, in whichever colour."""
    values = grey.astype(np.int16)
    paper = np.median(values)
    spread = max(int(values.max()) - paper, paper - int(values.min()), 1)
    mask: _Mask = np.abs(values - paper) > _INK * spread
    return mask


def _gap(ink: _Mask, left: float, right: float) -> int:
    """The column in the middle of the widest gap between two places of the strip."""
    width = ink.shape[1]
    start, end = round(left * width), max(round(right * width), round(left * width) + 1)
    blank = np.flatnonzero(~ink[:, start:end].any(axis=0))
    if not blank.size:
        return int(start + end) // 2
    runs = np.split(blank, np.flatnonzero(np.diff(blank) > 1) + 1)
    widest = max(runs, key=len)
    return int(start + widest[len(widest) // 2])


def _around_ink(ink: _Mask, start: int, end: int) -> Box:
    part = ink[:, start:end]
    columns, rows = np.flatnonzero(part.any(axis=0)), np.flatnonzero(part.any(axis=1))
    if not columns.size:
        return (start, 0, max(end, start + 1), ink.shape[0])
    return (start + int(columns[0]), int(rows[0]), start + int(columns[-1]) + 1, int(rows[-1]) + 1)


def _on_image(box: Box, strip: LineStrip) -> Box:
    """The box, given in the strip's own pixels, on the image."""
    height, width = strip.grey.shape
    x0, y0, x1, y1 = rotated_by_quarters(box, quarters=4 - strip.quarters, size=(width, height))
    left, top = strip.box[:2]
    return (left + x0, top + y0, left + x1, top + y1)
