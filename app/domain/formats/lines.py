"""A page's text as blocks of lines of runs, and its escaping for XML and HTML.

A run is a word of the page, or the text between white space where the page has no words. Escaped text holds only
characters that XML and HTML allow. It can't open or close markup, or reverse the direction of the text around it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from app.domain.pages import Page, Source

TextBox = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRun:
    text: str
    box: TextBox | None = None
    """The box, measured as a word's; None where the page has no positions."""
    confidence: float | None = None
    source: Source | None = None


TextLine = Sequence[TextRun]
TextBlock = Sequence[TextLine]


def blocks_of(page: Page) -> list[TextBlock]:
    """Return the blocks in reading order. No block and no line is empty."""
    return _of_words(page) if page.words else list(_of_text(page.text))


def enclosing(pieces: Iterable[TextRun]) -> TextBox | None:
    """Return the box around all runs; None if one of them has no box."""
    boxes = [piece.box for piece in pieces]
    if not boxes or None in boxes:
        return None
    x0s, y0s, x1s, y1s = zip(*(box for box in boxes if box), strict=True)
    return (min(x0s), min(y0s), max(x1s), max(y1s))


def runs_of(block: TextBlock) -> list[TextRun]:
    return [piece for line in block for piece in line]


def _of_words(page: Page) -> list[TextBlock]:
    pieces = (
        (word, TextRun(text=word.text, box=word.box, confidence=word.confidence, source=word.source))
        for word in page.words
    )
    return [
        [[piece for _, piece in line] for _, line in groupby(block, key=lambda pair: pair[0].line)]
        for _, block in groupby(pieces, key=lambda pair: pair[0].block)
    ]


def _of_text(text: str) -> Iterator[TextBlock]:
    block: list[TextLine] = []
    for line in [*text.splitlines(), ""]:
        if pieces := [TextRun(text=part) for part in line.split()]:
            block.append(pieces)
        elif block:
            yield block
            block = []


_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 (section 2.2) can't represent, and the C1 controls that it discourages."""

_REFERENCES = {
    ord(character): f"&#x{ord(character):X};"
    # The last ones reverse the text that follows them. As references, they don't deceive a reader of the source.
    for character in "&<>\"'\t\n\r\x85\u2028\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
} | {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;"}

_LANGUAGE = re.compile("[a-z]{3}")


def escaped_markup(text: str) -> str:
    """Escape text for an element, or for an attribute's value in double or single quotes."""
    return _FORBIDDEN.sub("\ufffd", text).translate(_REFERENCES)


def language_of(page: Page) -> str | None:
    """Return the language as a BCP 47 tag; None where a page is in several languages."""
    return page.language if _LANGUAGE.fullmatch(page.language) else None
