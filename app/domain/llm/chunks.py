"""A document in chunks that fit a model's context: cut between pages, and within a page only if it is too long."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.domain.llm.token_estimate import estimate_tokens

LEAST_SLICE = 200
"""Characters that are not cut any further. A model that can't take them in can't take in a question either."""

HEADING = 24
"""Tokens of the line that names a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePart:
    """A page, or a part of a page that is too long."""

    page: int
    text: str

    @property
    def tokens(self) -> int:
        return HEADING + estimate_tokens(self.text)

    def halves(self) -> "tuple[PagePart, PagePart] | None":
        """Cut at the line end nearest to the middle, or else at the nearest space; None when the part is too short."""
        if len(self.text) < 2 * LEAST_SLICE:
            return None
        at = _cut(self.text)
        return PagePart(page=self.page, text=self.text[:at]), PagePart(page=self.page, text=self.text[at:])


@dataclass(frozen=True, slots=True)
class Chunk:
    pieces: tuple[PagePart, ...]

    @property
    def pages(self) -> list[int]:
        return sorted({piece.page for piece in self.pieces})

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)

    def halves(self) -> "tuple[Chunk, Chunk] | None":
        if len(self.pieces) == 1:
            cut = self.pieces[0].halves()
            return cut and (Chunk(cut[:1]), Chunk(cut[1:]))
        middle = len(self.pieces) // 2
        return Chunk(self.pieces[:middle]), Chunk(self.pieces[middle:])


def chunks_of(pieces: Iterable[PagePart], *, room: int) -> list[Chunk]:
    """Return as few chunks as fit `room` tokens each, in order. A piece that can't be cut further may exceed it."""
    chunks: list[list[PagePart]] = []
    filled = room
    for piece in _fitting(pieces, room):
        if filled + piece.tokens > room:
            chunks.append([])
            filled = 0
        chunks[-1].append(piece)
        filled += piece.tokens
    return [Chunk(tuple(chunk)) for chunk in chunks]


def page_ranges(numbers: Iterable[int]) -> str:
    """Return page numbers as `1-3,7`, the form that an `ocr` job accepts."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][-1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _fitting(pieces: Iterable[PagePart], room: int) -> Iterator[PagePart]:
    for piece in pieces:
        halves = piece.halves() if piece.tokens > room else None
        if halves is None:
            yield piece
        else:
            yield from _fitting(halves, room)


def _cut(text: str) -> int:
    middle = len(text) // 2
    for mark in ("\n", " "):
        ends: Sequence[int] = [text.rfind(mark, LEAST_SLICE // 2, middle) + 1, text.find(mark, middle) + 1]
        near = [end for end in ends if 0 < end < len(text)]
        if near:
            return min(near, key=lambda end: abs(end - middle))
    return middle
