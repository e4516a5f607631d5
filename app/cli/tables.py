"""Printing tables without cutting off a cell."""

import sys

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

UNCUT = 10_000
"""Columns: no table has more."""


def console() -> Console:
    """On a terminal as wide as that is; in a pipe or file as wide as it takes, for nothing may be cut off there."""
    return Console(width=None if sys.stdout.isatty() else UNCUT)


def show(table: Table, *, printer: Console | None = None) -> None:
    """Print each row as lines of its own where the table is too wide."""
    printer = printer or console()
    if _width(table, printer) > printer.width:
        # Without a name it is an ornament: a bar.
        table.columns = [column for column in table.columns if column.header]
    if _width(table, printer) <= printer.width:
        printer.print(table)
    else:
        _rows(table, printer)


def _width(table: Table, printer: Console) -> int:
    return Measurement.get(printer, printer.options.update(max_width=UNCUT), table).maximum


def _rows(table: Table, printer: Console) -> None:
    names = [str(column.header) for column in table.columns]
    longest = max(map(len, names))
    for row in zip(*(column.cells for column in table.columns), strict=True):
        for name, cell in zip(names, row, strict=True):
            printer.print(f"{name:{longest}}  {cell}", markup=False, highlight=False, soft_wrap=True)
        printer.print()
