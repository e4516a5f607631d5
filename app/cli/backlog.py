"""`daira backlog`: the work that waits, drawn in the terminal as the dashboard draws it."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.bootstrap import Runtime
from app.cli.administration import with_runtime
from app.cli.tables import console
from app.domain.doorbells import LANE_OF_KIND
from app.domain.errors import Unavailable
from app.ports.leases import Backlog

WIDTH = 30
"""Characters of the longest bar."""

EVERY = 2.0
"""Seconds between two looks of `--watch`."""

# Told apart without colours too.
PARTS = {"stuck": ("×", "red"), "running": ("▓", "green"), "due": ("█", "yellow"), "scheduled": ("░", "blue")}


def backlog(
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every 2 s until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each refresh.")] = False,
) -> None:
    """Show queued, running and stuck jobs by kind, counted on the table.

    The exit status is 0 also with stuck jobs: a lost worker's jobs count as stuck until the next sweep.
    """

    async def show(opened: Runtime) -> None:
        # In a pipe nothing can be drawn over: one look follows the other.
        if watch and not as_json and sys.stdout.isatty():
            await _watch(opened)
        else:
            await _print(opened, _show_json if as_json else _show, watch=watch)

    with_runtime(show)


async def _watch(opened: Runtime) -> None:
    with Live(Text("Looking…"), console=Console(), auto_refresh=False) as live:
        while True:
            try:
                live.update(drawn(await opened.sweeps.backlog()), refresh=True)
            except Unavailable as error:  # who watches wants to see it come back
                live.update(Text(str(error), style="red"), refresh=True)
            await asyncio.sleep(EVERY)


async def _print(opened: Runtime, show: Callable[[Sequence[Backlog]], None], *, watch: bool) -> None:
    while True:
        show(await opened.sweeps.backlog())
        if not watch:
            return
        await asyncio.sleep(EVERY)


def _show(rows: Sequence[Backlog]) -> None:
    console().print(drawn(rows))


def _show_json(rows: Sequence[Backlog]) -> None:
    print(json.dumps({"kinds": [_told(row) for row in _every_kind(rows)]}), flush=True)


def drawn(rows: Sequence[Backlog]) -> Group:
    rows = _every_kind(rows)
    most = max(1, *map(_total, rows))
    table = Table("kind", "", *PARTS, "oldest due", "", box=None, header_style="bold")
    for column in table.columns[2:7]:
        column.justify = "right"
    for row in rows:
        # Colours draw the eye to what there is of it.
        figures = [Text(str(getattr(row, part)), style=_style(row, part)) for part in PARTS]
        table.add_row(row.kind, _bar(row, most=most), *figures, span(row.oldest_due))
    return Group(_verdict(rows), table)


def span(time: timedelta) -> str:
    """In the largest unit of which there is more than one."""
    seconds = time.total_seconds()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _verdict(rows: Sequence[Backlog]) -> Text:
    due, stuck = sum(row.due for row in rows), sum(row.stuck for row in rows)
    oldest = max(row.oldest_due for row in rows)
    if stuck:
        return Text(f"{stuck} stuck: claimed by workers that are gone, until the next sweep", style="bold red")
    if due:
        return Text(f"{due} due, the oldest for {span(oldest)}", style="bold yellow")
    return Text("nothing is late or stuck", style="bold green")


def _bar(row: Backlog, *, most: int) -> Text:
    bar = Text()
    for part, (sign, colour) in PARTS.items():
        if count := getattr(row, part):
            # What there is of something can be seen, however little.
            bar.append(sign * max(1, round(count / most * WIDTH)), style=colour)
    return bar


def _style(row: Backlog, part: str) -> str:
    return PARTS[part][1] if getattr(row, part) else "dim"


def _every_kind(rows: Sequence[Backlog]) -> list[Backlog]:
    """Also those without work, and those that only another version knows."""
    found = {row.kind: row for row in rows}
    return [found.get(kind) or _nothing(kind) for kind in sorted(found.keys() | LANE_OF_KIND.keys())]


def _nothing(kind: str) -> Backlog:
    return Backlog(kind=kind, due=0, scheduled=0, running=0, stuck=0, oldest_due=timedelta())


def _total(row: Backlog) -> int:
    return row.due + row.scheduled + row.running + row.stuck


def _told(row: Backlog) -> Mapping[str, object]:
    figures = {part: getattr(row, part) for part in ("due", "scheduled", "running", "stuck")}
    return {"kind": row.kind, **figures, "oldest_due_seconds": row.oldest_due.total_seconds()}
