"""The tables: one for each measure, the targets, and the conditions of the run."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.race.drain import Drain
from benchmarks.race.figures import (
    LIMIT,
    PEERS,
    Figures,
    Spread,
    Target,
    best_drains,
    grouped,
    latencies,
    percentile,
    spread,
)  # fmt: skip

WIDTH = 120
"""Characters of a table's lines in a file or a pipe."""


def show(figures: Figures, targets: Sequence[Target], conditions: Mapping[str, Any]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    tables = [
        *_drains("Drain, jobs a second", figures.drains),
        *_backlogs(f"Drain above {conditions['plan']['backlog']:,} queued jobs, jobs a second", figures),
        *_enqueues(figures),
        *_pickups(figures),
        *_idles(figures),
        _targets(targets),
    ]
    for table in tables:
        console.print(table)
    _show_conditions(console, conditions)


def _drains(title: str, drains: Sequence[Drain]) -> Iterator[Table]:
    if not drains:
        return
    best = best_drains(drains)
    table = _table(title, "median", "least to most", "of raw", "of best peer", "jobs", left="best setting")
    limit = best[LIMIT][1].median if LIMIT in best else None
    peer = max((best[name][1].median for name in PEERS if name in best), default=None)
    for name, (setting, rate) in best.items():
        shares = (_share(rate.median, limit), _times(rate.median, peer))
        table.add_row(name, setting, *_rate(rate), *shares, _jobs(drains, name))
    yield table


def _backlogs(title: str, figures: Figures) -> Iterator[Table]:
    if not figures.backlogs:
        return
    without = best_drains(figures.drains)
    table = _table(title, "median", "least to most", "of that without", "jobs", left="setting")
    for name, (setting, rate) in best_drains(figures.backlogs).items():
        share = _share(rate.median, without[name][1].median if name in without else None)
        table.add_row(name, setting, *_rate(rate), share, _jobs(figures.backlogs, name))
    yield table


def _enqueues(figures: Figures) -> Iterator[Table]:
    for how, rows in grouped(figures.enqueues, lambda row: row.how).items():
        table = _table(f"Enqueue, {how}, jobs a second", "median", "least to most", "p50 ms", "p99 ms")
        for name, of_one in grouped(rows, lambda row: row.competitor).items():
            cuts = [[row.p50_ms for row in of_one], [row.p99_ms for row in of_one]]
            texts = ["" if None in each else f"{statistics.median(filter(None, each)):.2f}" for each in cuts]
            table.add_row(name, *_rate(spread(row.rate for row in of_one)), *texts)
        yield table


def _pickups(figures: Figures) -> Iterator[Table]:
    if not figures.pickups:
        return
    table = _table("Pickup by an idle worker, ms", "p50", "p95", "p99", "most", "p50 of rounds", "call p50", "missing")
    groups = grouped(figures.pickups, lambda row: row.competitor)
    for name, times in latencies(figures.pickups).items():
        rows = groups[name]
        medians = spread(statistics.median(row.latencies_ms) for row in rows)
        cuts = [f"{percentile(times, percent):.2f}" for percent in (50, 95, 99)]
        call = statistics.median(each for row in rows for each in row.calls_ms)
        between = f"{medians.least:.2f} to {medians.most:.2f}"
        table.add_row(name, *cuts, f"{max(times):.2f}", between, f"{call:.2f}", str(sum(row.missing for row in rows)))
    yield table


def _idles(figures: Figures) -> Iterator[Table]:
    if not figures.idles:
        return
    table = _table("Idle worker", "transactions/s", "CPU ms/s", "seconds", left="setting")
    for row in figures.idles:
        cpu = "" if row.cpu_seconds is None else f"{1e3 * row.cpu_seconds / row.seconds:.1f}"
        table.add_row(row.competitor, row.setting, f"{row.rate:.2f}", cpu, f"{row.seconds:.0f}")
    yield table


def _targets(targets: Sequence[Target]) -> Table:
    table = Table(title="Targets", title_justify="left")
    table.add_column("target")
    table.add_column("measured", justify="right")
    table.add_column("")
    for target in targets:
        verdict = {True: "[green]met[/]", False: "[red]not met[/]", None: ""}[target.met]
        table.add_row(target.text, target.figure, verdict)
    return table


def _show_conditions(console: Console, conditions: Mapping[str, Any]) -> None:
    server = ", ".join(f"{name} {value}" for name, value in conditions["server"].items())
    console.print(f"Machine: {', '.join(f'{name} {value}' for name, value in conditions['machine'].items())}")
    console.print(f"Server: {server}", highlight=False)
    for about in conditions["competitors"]:
        versions = ", ".join(f"{name} {value}" for name, value in about["versions"].items())
        console.print(f"[bold]{about['name']}[/] (Python {about['python']}, {versions})", highlight=False)
        for note in about["notes"]:
            console.print(f"  {note}", highlight=False, markup=False)
        console.print(f"  settings: {'; '.join(each['label'] for each in about['settings'])}", highlight=False)
    for note in conditions["notes"]:
        console.print(note, highlight=False)


def _table(title: str, *right: str, left: str | None = None) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("", *([left] if left else [])):
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def _rate(rate: Spread) -> tuple[str, str]:
    return f"{rate.median:,.0f}", f"{rate.least:,.0f} to {rate.most:,.0f}"


def _jobs(drains: Sequence[Drain], competitor: str) -> str:
    """The fewest jobs of all rounds, which are fewer than planned if the time was up."""
    return f"{min(row.jobs for row in drains if row.competitor == competitor):,}"


def _share(value: float, of: float | None) -> str:
    return "" if of is None else f"{100 * value / of:.1f} %"


def _times(value: float, of: float | None) -> str:
    return "" if of is None else f"{value / of:.2f}"
