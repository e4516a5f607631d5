"""Lines, paragraphs and regions of a page, the units of the reading order."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from app.reading.engine import RecognizedWord
from app.reading.geometry import Box, enclosing

WordLine = Sequence[RecognizedWord]
"""A line's words from left to right, at least one."""
Paragraph = Sequence[WordLine]
Region = Sequence[Paragraph]
"""A column of text, as an engine found it."""

_PLAY = 0.15
"""Share of the height of a line's words by which one may stand out. A bracket stands out by less."""
_VERTICAL = 3
"""Ratio of a line's height to its width from which it runs up or down the page."""


def box_of(line: WordLine) -> Box:
    return enclosing([word.box for word in line])


def lines_of(region: Region) -> list[WordLine]:
    return [line for paragraph in region for line in paragraph]


def with_even_heights(line: WordLine) -> WordLine:
    """The line, with words that stand out both above and below reduced to the height of the others.

    For words that it has not split into letters Tesseract gives the row's height, which may be three times theirs.
    """
    top, bottom = median(word.box[1] for word in line), median(word.box[3] for word in line)
    play = _PLAY * (bottom - top)
    return [
        replace(word, box=(word.box[0], top, word.box[2], bottom))
        if word.box[1] < top - play and word.box[3] > bottom + play
        else word
        for word in line
    ]


def is_vertical(region: Region) -> bool:
    """Return true if the region is one line of several words that runs up or down the page."""
    lines = lines_of(region)
    if len(lines) > 1 or len(lines[0]) == 1:
        return False
    x0, y0, x1, y1 = box_of(lines[0])
    return y1 - y0 > _VERTICAL * (x1 - x0)


def is_within(box: Box, region: Region) -> bool:
    x0, y0, x1, y1 = enclosing([box_of(line) for line in lines_of(region)])
    return box[0] <= (x0 + x1) / 2 <= box[2] and box[1] <= (y0 + y1) / 2 <= box[3]


def numbered(regions: Iterable[Region]) -> list[RecognizedWord]:
    """The words in this order, with their lines and blocks numbered anew."""
    words: list[RecognizedWord] = []
    lines = blocks = 0
    for region in regions:
        for paragraph in region:
            for line in paragraph:
                words += [replace(word, line=lines, block=blocks) for word in line]
                lines += 1
            blocks += 1
    return words


def overlap(a: tuple[float, float], b: tuple[float, float]) -> float:
    """The share of the shorter of two intervals that lies within the other; if negative, their gap in lengths of it."""
    length = min(a[1] - a[0], b[1] - b[0])
    return (min(a[1], b[1]) - max(a[0], b[0])) / max(length, 1e-6)
