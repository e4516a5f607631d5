"""Tables sorted by rows, because engines take each column of a table without rules for a column of text."""

from collections.abc import Callable, Sequence
from statistics import median

from app.reading.engine import RecognizedWord
from app.reading.geometry import Box, enclosing
from app.reading.layout.lines import Region, WordLine, box_of, lines_of, overlap

_BESIDE = 0.3
"""Share of the less high region's height that the other must share to lie beside it."""
_APART = 0.2
"""Share of the narrower region's width that the other may share."""
_CELL_WORDS = 2
_CELLS = 3
"""Lines of a column of cells at least, and `_CELL_WORDS` the median words of its lines at most: prose has more."""
_ALIGNED = 0.6
"""Share of the smaller region's lines that have a line of the other at their height."""
_LEVEL = 0.5
"""Share of the less high line's height that another must share to lie at its height."""


def tables_by_rows(
    regions: Sequence[Region], *, also: Callable[[Box], Sequence[RecognizedWord]] = lambda _: ()
) -> list[Region]:
    """The regions, with those that are columns of one table joined and sorted by rows.

    A table takes the place of its first column, or follows the columns above it. `also` returns further words within a
    table. The thresholds were measured on invoices, magazines, a brochure and two-column pages. Looser ones, and page
    segmentation modes that read by rows, repair more tables and break pages with columns.
    """
    columns = [_Column(region) for region in regions]
    read = []
    for group in sorted(_grouped(columns), key=lambda group: _place(group, columns)):
        if len(group) == 1:
            read.append(regions[group[0]])
        else:
            more = also(enclosing([columns[index].box for index in group]))
            read.append(rows_of([*(regions[index] for index in group), *([[[word]]] for word in more)]))
    return read


def rows_of(group: Sequence[Region]) -> Region:
    """All lines of these regions as one region, sorted by rows."""
    cells = sorted((line for region in group for line in lines_of(region)), key=_middle)
    rows: list[list[WordLine]] = []
    for cell in cells:
        if rows and _is_level(rows[-1], cell):
            rows[-1].append(cell)
        else:
            rows.append([cell])
    return [[[word for cell in sorted(row, key=_left) for word in cell] for row in rows]]


def _grouped(columns: Sequence["_Column"]) -> list[list[int]]:
    group_of = list(range(len(columns)))
    for b in range(len(columns)):
        for a in range(b):
            if group_of[a] != group_of[b] and _are_cells(columns[a], columns[b]):
                old, new = max(group_of[a], group_of[b]), min(group_of[a], group_of[b])
                group_of = [new if number == old else number for number in group_of]
    return [[index for index, number in enumerate(group_of) if number == first] for first in sorted(set(group_of))]


def _place(group: Sequence[int], columns: Sequence["_Column"]) -> float:
    """The place of the group's first column, or after those columns between its own that stand above the table."""
    top = min(columns[index].box[1] for index in group)
    between = set(range(group[0], group[-1])) - set(group)
    return max((index + 0.5 for index in between if columns[index].box[3] <= top), default=group[0])


class _Column:
    def __init__(self, region: Region) -> None:
        lines = lines_of(region)
        self.lines = [box_of(line) for line in lines]
        self.box: Box = enclosing(self.lines)
        self.is_cells = len(lines) >= _CELLS and median(map(len, lines)) <= _CELL_WORDS


def _are_cells(a: _Column, b: _Column) -> bool:
    if not (a.is_cells or b.is_cells):
        return False
    if not _is_beside(a, b):
        return False
    few, many = sorted((a.lines, b.lines), key=len)
    aligned = sum(any(overlap(line[1::2], other[1::2]) > _LEVEL for other in many) for line in few)
    return aligned >= _ALIGNED * len(few)


def _is_beside(a: _Column, b: _Column) -> bool:
    return overlap(a.box[1::2], b.box[1::2]) > _BESIDE and overlap(a.box[::2], b.box[::2]) < _APART


def _is_level(row: Sequence[WordLine], cell: WordLine) -> bool:
    # Compared with the row's last cell only, so that a row that is slightly tilted is followed from cell to cell.
    return overlap(box_of(row[-1])[1::2], box_of(cell)[1::2]) > _LEVEL


def _middle(line: WordLine) -> float:
    box = box_of(line)
    return box[1] + box[3]


def _left(line: WordLine) -> float:
    return box_of(line)[0]
