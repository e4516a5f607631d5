"""Assembles a page: lines and paragraphs from the places of words, and words of text layer and OCR merged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, repeat
from statistics import median

from app.domain.pages import Source, Word
from app.reading.geometry import Box, contains, enclosing, words_from_columns
from app.reading.pdf.text_layer import LayerWord

_WIDER = 1.35
"""Ratio to the usual distance of lines from which the next line begins a paragraph."""
_FARTHEST = 4.0
"""Heights of a line within which the next line can belong to its paragraph."""
_SHARED = 0.5
"""Share of the smaller of two words that the other covers, from which they are one word read twice."""


def with_blocks(words: Sequence[LayerWord]) -> list[Word]:
    """The words of a text layer in the file's order. A line farther below than usual begins a block."""
    starts = [index for index, word in enumerate(words) if not index or word.line != words[index - 1].line]
    ends = [*starts[1:], len(words)]
    spans = list(zip(starts, ends, strict=True)) if words else []
    blocks = _blocks([enclosing([word.box for word in words[start:end]]) for start, end in spans])
    of_words = [(line, block) for line, block in enumerate(blocks) for _ in range(*spans[line])]
    return words_from_columns(
        texts=[word.text for word in words],
        boxes=[word.box for word in words],
        confidences=repeat(1.0, len(words)),
        sources=repeat(Source.TEXT_LAYER, len(words)),
        lines=[line for line, _ in of_words],
        blocks=[block for _, block in of_words],
    )


def without_duplicates(found: Sequence[Word], *, beside: Sequence[Word]) -> list[Word]:
    """The words found by OCR that the text layer does not have."""
    return [word for word in found if not any(_same_place(word.box, other.box) for other in beside)]


def merged_words(carried: Sequence[Word], found: Sequence[Word], *, regions: Sequence[Box]) -> tuple[Word, ...]:
    """The words of both in reading order: OCR's blocks are put between those of the text layer by their place.

    Both keep their own order otherwise, because the file's order follows its columns, and OCR's does too.
    """
    lines = [_Line(words=tuple(line)) for line in _by_line(found)]
    rest: list[Word] = []
    for line in _by_line(carried):
        # In a form, text typed onto a picture belongs to the printed line there.
        partner = next((other for other in lines if other.takes(line)), None) if _lies_in(line, regions) else None
        if partner is None:
            rest += line
        else:
            partner.add(line)
    blocks = _parted(rest)
    end = len(blocks)
    placed: list[tuple[int, list[list[Word]]]] = []
    for block in _grouped(lines):
        box = enclosing([word.box for line in block for word in line])
        placed.append((_place(box, blocks), block))
    ordered: list[list[list[Word]]] = []
    for index in range(end + 1):
        ordered += [block for place, block in placed if place == index]
        if index < end:
            ordered.append(blocks[index])
    return tuple(_numbered(ordered))


@dataclass(slots=True)
class _Line:
    words: tuple[Word, ...]

    def takes(self, others: Sequence[Word]) -> bool:
        """Return true if the words stand beside this line's at the same height."""
        ours, theirs = enclosing([w.box for w in self.words]), enclosing([w.box for w in others])
        lower = min(ours[3] - ours[1], theirs[3] - theirs[1])
        level = min(ours[3], theirs[3]) - max(ours[1], theirs[1]) > _SHARED * lower
        gap = max(ours[0], theirs[0]) - min(ours[2], theirs[2])
        return level and gap < 3 * max(ours[3] - ours[1], theirs[3] - theirs[1])

    def add(self, others: Sequence[Word]) -> None:
        first = self.words[0]
        moved = [replace(word, line=first.line, block=first.block) for word in others]
        self.words = tuple(sorted([*self.words, *moved], key=lambda word: word.box[0]))


def _blocks(lines: list[Box]) -> list[int]:
    steps = [_step(above, below) for above, below in pairwise(lines)]
    near = [step for step in steps if step is not None and step > 0]
    usual = median(near) if near else 0.0
    numbers = [0] if lines else []
    for step in steps:
        numbers.append(numbers[-1] + (step is None or step > _WIDER * usual))
    return numbers


def _step(above: Box, below: Box) -> float | None:
    """The step from one line down to the next; None if they can't be lines of one paragraph."""
    height = max(above[3] - above[1], below[3] - below[1])
    step = below[3] - above[3]
    beside = above[2] < below[0] or below[2] < above[0]
    if beside or step > _FARTHEST * height:
        return None
    # A superscript's line steps up by less than a line, a new column by more.
    return step if step > -height else None


def _same_place(a: Box, b: Box) -> bool:
    across = min(a[2], b[2]) - max(a[0], b[0])
    down = min(a[3], b[3]) - max(a[1], b[1])
    if across <= 0 or down <= 0:
        return False
    smaller = min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1]))
    return across * down >= _SHARED * smaller


def _lies_in(line: Sequence[Word], regions: Sequence[Box]) -> bool:
    box = enclosing([word.box for word in line])
    return any(contains(region, box) for region in regions)


def _by_line(words: Iterable[Word]) -> list[list[Word]]:
    return [list(line) for _, line in groupby(words, key=lambda word: word.line)]


def _parted(words: Sequence[Word]) -> list[list[list[Word]]]:
    return [_by_line(block) for _, block in groupby(words, key=lambda word: word.block)]


def _grouped(lines: list[_Line]) -> list[list[list[Word]]]:
    return [[list(line.words) for line in block] for _, block in groupby(lines, key=lambda line: line.words[0].block)]


def _place(box: Box, blocks: list[list[list[Word]]]) -> int:
    """The index of the block before which the box comes: after the last block above it, in its column if possible."""
    boxes = [enclosing([word.box for line in block for word in line]) for block in blocks]
    middle = (box[1] + box[3]) / 2
    above = [index for index, other in enumerate(boxes) if (other[1] + other[3]) / 2 <= middle]
    same = [index for index in above if boxes[index][0] < box[2] and boxes[index][2] > box[0]]
    if same:
        return max(same) + 1
    below = [index for index in range(len(boxes)) if index not in above]
    return min(below) if below else len(boxes)


def _numbered(blocks: list[list[list[Word]]]) -> Iterable[Word]:
    number = 0
    for block, lines in enumerate(blocks):
        for line in lines:
            yield from (replace(word, line=number, block=block) for word in line)
            number += 1
