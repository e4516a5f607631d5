"""Lines, paragraphs and regions of a page, from which the reading order is made."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from app.reading.engine import RecognizedWord
from app.reading.geometry import Box, enclosing

WordLine = Sequence[RecognizedWord]
"""The line's words, at least one, from left to right."""
Paragraph = Sequence[WordLine]
Region = Sequence[Paragraph]
"""A column, or what an engine took for one."""

_PLAY = 0.15
"""A share of the height of a line's words: a bracket stands out by less."""
_VERTICAL = 3
"""Height of a line by its width."""


def box_of(line: WordLine) -> Box:
    return enclosing([word.box for word in line])


def lines_of(region: Region) -> list[WordLine]:
    return [line for paragraph in region for line in paragraph]


def with_even_heights(line: WordLine) -> WordLine:
    """With the words that stand out above and below, brought to the height of the others.

    Of words that it has not cut into letters Tesseract tells the height of the row, which may be three times theirs.
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
    """True for one line of several words that runs up or down the page."""
    lines = lines_of(region)
    if len(lines) > 1 or len(lines[0]) == 1:
        return False
    x0, y0, x1, y1 = box_of(lines[0])
    return y1 - y0 > _VERTICAL * (x1 - x0)


def is_within(box: Box, region: Region) -> bool:
    x0, y0, x1, y1 = enclosing([box_of(line) for line in lines_of(region)])
    return box[0] <= (x0 + x1) / 2 <= box[2] and box[1] <= (y0 + y1) / 2 <= box[3]


def numbered(regions: Iterable[Region]) -> list[RecognizedWord]:
    """The words in this order, their lines and blocks counted anew."""
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
    """The share of the shorter of two stretches that lies within the other; negative: the gap, in shorter ones."""
    length = min(a[1] - a[0], b[1] - b[0])
    return (min(a[1], b[1]) - max(a[0], b[0])) / max(length, 1e-6)
