"""Markdown (CommonMark) for people and language models: paragraphs, and headings where a line is clearly larger.

A page's text is escaped, so that none of it acts as markup. Tables are not made, because columns that merely line up
are as often no table.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from app.domain.documents import Document
from app.domain.formats.lines import TextBlock, TextLine, blocks_of, enclosing
from app.domain.pages import Page

_LARGE, _LARGER = 1.35, 1.9
"""Multiples of the height of the page's usual line. A line of the usual size never reaches them.
A line without ascenders and descenders has three quarters of the usual height."""
_LONGEST_HEADING = 16
"""Words; a page that is entirely large has no headings."""
_FEWEST_LINES = 4
"""The fewest lines on a page from which the usual size can be derived."""
_PARTED = 1.6
"""Multiples of the usual line distance. A larger distance ends a paragraph."""

_ANYWHERE = re.compile(r"([\\`*_\[\]<&|~])")
_AT_THE_BEGINNING = re.compile(r"^([#+=>-]|\d{1,9}(?=[.)]))")


def head(_: Document) -> str:
    return ""


def page(page: Page) -> str:
    """Return a page as Markdown. It begins with a comment that marks the page, which no reader displays."""
    blocks = blocks_of(page)
    usual = _usual_height([line for block in blocks for line in block])
    parts = [part for block in blocks for part in _parts(block, usual=usual)]
    apart = "\n" if page.number > 1 else ""
    return apart + "\n\n".join([f"<!-- page {page.number} -->", *parts]) + "\n"


def escaped_line(line: str) -> str:
    """Escape a line so that it is displayed unchanged anywhere in a document."""
    quiet = _ANYWHERE.sub(r"\\\1", line)
    return _AT_THE_BEGINNING.sub(lambda found: found[0] + "\\" if found[0].isdigit() else "\\" + found[0], quiet)


def _parts(block: TextBlock, *, usual: float | None) -> Iterator[str]:
    for paragraph in _paragraphs(block):
        mark = _heading(paragraph, usual=usual)
        if mark:
            yield f"{mark} {escaped_line(' '.join(_text(line) for line in paragraph))}"
        else:
            yield "\n".join(escaped_line(_text(line)) for line in paragraph)


def _paragraphs(block: TextBlock) -> Iterator[Sequence[TextLine]]:
    """Split a block where its lines stand apart. All words of a text layer are in one block."""
    tops = [box[1] if (box := enclosing(line)) else 0.0 for line in block]
    steps = [after - before for before, after in pairwise(tops)]
    usual = median(steps) if steps else 0.0
    start = 0
    for number, step in enumerate(steps, start=1):
        if usual > 0 and not 0 <= step <= usual * _PARTED:
            yield block[start:number]
            start = number
    yield block[start:]


def _heading(lines: Sequence[TextLine], *, usual: float | None) -> str:
    words = sum(len(line) for line in lines)
    if usual is None or words > _LONGEST_HEADING:
        return ""
    height = min(_height(line) for line in lines)
    if height < usual * _LARGE:
        return ""
    return "#" if height >= usual * _LARGER else "##"


def _usual_height(lines: Sequence[TextLine]) -> float | None:
    """Return the usual height, weighted by words: long lines, which have letters of all heights, count the most."""
    if len(lines) < _FEWEST_LINES:
        return None
    heights = [height for line in lines for height in [_height(line)] * len(line)]
    return median(heights) if min(heights) > 0 else None


def _height(line: TextLine) -> float:
    box = enclosing(line)
    return box[3] - box[1] if box else 0.0


def _text(line: TextLine) -> str:
    return " ".join(piece.text for piece in line)
