"""Tables of commands: nothing is cut off on a narrow terminal."""

import io

from rich.console import Console
from rich.table import Column, Table

from app.cli import tables

ROW = (
    "01a22bc4-fe29-728b-8799-4f7634d44670",
    "laptop",
    "documents:read documents:write jobs:write",
    "2026-11-30 09:24",
)


def test_a_terminal_that_is_wide_enough_gets_a_table() -> None:
    assert [line for line in _shown(_table(), width=200) if all(cell in line for cell in ROW)]


def test_a_narrow_terminal_gets_each_row_in_lines_of_its_own() -> None:
    lines = _shown(_table(), width=80)
    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("id ")] == [ROW[0]]
    assert any(line.startswith("last used") and line.endswith(ROW[3]) for line in lines)


def test_a_column_without_a_name_is_left_out_where_the_others_would_not_fit() -> None:
    table = Table("day", Column("bytes", footer="7"), Column("", no_wrap=True), show_footer=True)
    table.add_row("2026-11-30", "7", "█" * 70)
    lines = _shown(table, width=80)
    assert any("2026-11-30" in line and "7" in line for line in lines)
    assert not any("█" in line for line in lines)


def _table() -> Table:
    table = Table("id", "name", "scopes", "last used")
    table.add_row(*ROW)
    return table


def _shown(table: Table, *, width: int) -> list[str]:
    file = io.StringIO()
    tables.show(table, printer=Console(file=file, force_terminal=True, color_system=None, width=width))
    return file.getvalue().splitlines()
