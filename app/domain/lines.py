"""A page's text as blocks of lines of pieces: its words, or what stands between white space where it has none."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from app.domain.pages import Page, Source

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    text: str
    box: Box | None = None
    """As of a word; None where the page knows no places."""
    confidence: float | None = None
    source: Source | None = None


Line = Sequence[Piece]
Block = Sequence[Line]


def blocks_of(page: Page) -> list[Block]:
    """In reading order; none of them, and no line, is empty."""
    return _of_words(page) if page.words else list(_of_text(page.text))


def around(pieces: Iterable[Piece]) -> Box | None:
    """None unless all of them have a place."""
    boxes = [piece.box for piece in pieces]
    if not boxes or None in boxes:
        return None
    x0s, y0s, x1s, y1s = zip(*(box for box in boxes if box), strict=True)
    return (min(x0s), min(y0s), max(x1s), max(y1s))


def pieces_of(block: Block) -> list[Piece]:
    return [piece for line in block for piece in line]


def _of_words(page: Page) -> list[Block]:
    pieces = (
        (word, Piece(text=word.text, box=word.box, confidence=word.confidence, source=word.source))
        for word in page.words
    )
    return [
        [[piece for _, piece in line] for _, line in groupby(block, key=lambda pair: pair[0].line)]
        for _, block in groupby(pieces, key=lambda pair: pair[0].block)
    ]


def _of_text(text: str) -> Iterator[Block]:
    block: list[Line] = []
    for line in [*text.splitlines(), ""]:
        if pieces := [Piece(text=part) for part in line.split()]:
            block.append(pieces)
        elif block:
            yield block
            block = []
