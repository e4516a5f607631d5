"""The reading order of lines known only by their boxes: column after column, not across columns.

The rules are Breuel's (High Performance Document Layout Analysis, 2003). A line comes before another if it stands above
it in the same column. It also does if it stands in a column to the left, unless a line across both columns ends them.
Lines that these rules leave open are sorted from the top.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from app.reading.engine import RecognizedWord
from app.reading.geometry import Box
from app.reading.layout.lines import Region, WordLine, box_of, lines_of, overlap
from app.reading.layout.table_rows import rows_of, tables_by_rows

_MOST = 600
"""Lines of a page that are compared with one another. With more, all are read from the top."""
_SAME_ROW = 0.5
"""Share of the lower piece's height that another must share to belong to its line."""
_JOINED = 0.4
"""Gap between two pieces of a line, in heights. A magazine's columns are 0.75 apart."""
_LABEL = 2
"""Words of a label or a figure at most."""
_FEWEST = 3
"""Lines of text beside text from which a page has columns."""
_ABOVE = 0.1
"""Share of the narrower line's width from which another stands above or below it."""
_NEXT = 0.9
"""Gap between two lines of a paragraph, in heights."""
_FAR = 2.5
"""Gap between two lines of a column, in heights."""
_Matrix = npt.NDArray[np.bool_]
_Boxes = npt.NDArray[np.float64]


def in_reading_order(pieces: Sequence[WordLine]) -> list[Region]:
    """`pieces` are lines, or parts of lines, of an upright page, in any order."""
    lines = _whole_lines(pieces)
    if not _are_columnar(lines):
        return _parted(lines_of(rows_of([[lines]])))
    # Order again once tables are sorted by rows, because a line above a row comes before all of the row.
    return in_columns([line for region in tables_by_rows(in_columns(lines)) for line in lines_of(region)])


def in_columns(pieces: Sequence[WordLine]) -> list[Region]:
    return _parted(_in_order(_whole_lines(pieces)))


def _parted(lines: Sequence[WordLine]) -> list[Region]:
    """The lines in their order, split into regions and paragraphs at gaps."""
    regions: list[list[list[WordLine]]] = []
    last: WordLine | None = None
    for line in lines:
        gap = _gap_below(last, line) if last is not None else None
        if gap is None or gap > _FAR:
            regions.append([[line]])
        elif gap > _NEXT:
            regions[-1].append([line])
        else:
            regions[-1][-1].append(line)
        last = line
    return [list(region) for region in regions]


def _are_columnar(lines: Sequence[WordLine]) -> bool:
    """Return true if text stands beside text. A receipt or a form has only labels and figures beside text."""
    prose = [box_of(line) for line in lines if len(line) > _LABEL]
    beside = sum(any(_stands_beside(left, right) for right in prose) for left in prose)
    return beside >= _FEWEST


def _stands_beside(left: Box, right: Box) -> bool:
    return left[2] <= right[0] and overlap(left[1::2], right[1::2]) > _SAME_ROW


def _whole_lines(pieces: Sequence[WordLine]) -> list[WordLine]:
    lines: list[list[RecognizedWord]] = []
    for piece in sorted(pieces, key=lambda piece: box_of(piece)[0]):
        box = box_of(piece)
        continued = next((line for line in lines if _continues(box_of(line), box)), None)
        if continued is None:
            lines.append(list(piece))
        else:
            continued += piece
    return list(lines)


def _continues(line: Box, piece: Box) -> bool:
    height = min(line[3] - line[1], piece[3] - piece[1])
    is_level = overlap(line[1::2], piece[1::2]) > _SAME_ROW
    return is_level and -height < piece[0] - line[2] < _JOINED * height


def _gap_below(line: WordLine, following: WordLine) -> float | None:
    """The gap in heights of the lower line; None if the second is not beneath the first."""
    above, below = box_of(line), box_of(following)
    if overlap(above[::2], below[::2]) <= _ABOVE or below[1] + below[3] <= above[1] + above[3]:
        return None
    return (below[1] - above[3]) / max(min(above[3] - above[1], below[3] - below[1]), 1)


def _in_order(lines: Sequence[WordLine]) -> list[WordLine]:
    if not lines:
        return []
    boxes = np.array([box_of(line) for line in lines], dtype=np.float64)
    from_top = np.lexsort((boxes[:, 0], boxes[:, 1] + boxes[:, 3]))
    if len(lines) > _MOST:
        return [lines[index] for index in from_top]
    return [lines[index] for index in _sorted(_before(boxes), list(from_top))]


def _before(boxes: _Boxes) -> _Matrix:
    """A matrix in which [a, b] is true if line a is read before line b."""
    left, right, middle = boxes[:, 0], boxes[:, 2], boxes[:, 1] + boxes[:, 3]
    width = np.minimum.outer(right - left, right - left)
    common = np.minimum.outer(right, right) - np.maximum.outer(left, left)
    stacked = common > _ABOVE * width
    above = middle[:, None] < middle[None, :]
    beside = ~stacked & ((left + right)[:, None] < (left + right)[None, :])
    for ending in range(len(boxes)):
        # A line across both columns, at a height between the two lines, ends the columns.
        across = stacked[:, ending]
        over, under = across & (middle < middle[ending]), across & (middle > middle[ending])
        beside &= ~(np.outer(over, under) | np.outer(under, over))
    first: _Matrix = (stacked & above) | beside
    # Of two lines whose columns are ended, the upper one comes first.
    apart = ~(first | first.T)
    np.fill_diagonal(apart, val=False)
    return first | (apart & above)


def _sorted(before: _Matrix, from_top: list[int]) -> list[int]:
    """The lines in order, each after all that come before it; the topmost of several, and the topmost of a cycle."""
    waiting = before.sum(axis=0)
    order: list[int] = []
    left = list(from_top)
    while left:
        chosen = next((index for index in left if waiting[index] == 0), left[0])
        order.append(chosen)
        left.remove(chosen)
        waiting -= before[chosen]
    return order
