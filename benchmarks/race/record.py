"""The run as a file: every figure, what follows from them, and the data of the plot."""

import os
import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.race.drain import Drain
from benchmarks.race.enqueue import Enqueue
from benchmarks.race.figures import Figures, Target, best_drains, grouped, latencies, percentile, spread
from benchmarks.race.idle import Idle
from benchmarks.race.pickup import Pickup

QUIET = 0.5
"""The load of the last minute, by other work, up to which a machine counts as quiet."""


def machine() -> dict[str, Any]:
    """A description of the machine that lets a reader judge the figures, without its name."""
    found = {"system": f"{platform.system()} {platform.machine()}", "processors": os.cpu_count()}
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        found["model"] = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        found["load"] = " ".join(f"{load:.1f}" for load in os.getloadavg())
    except (OSError, StopIteration):
        pass
    return found


def busy() -> list[str]:
    load = os.getloadavg()[0]
    return [f"The machine was busy when this began (load {load:.1f}): look at the spread."] if load > QUIET else []


def record(figures: Figures, targets: Sequence[Target], conditions: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **conditions,
        "targets": [asdict(target) for target in targets],
        "panels": list(_panels(figures, conditions)),
        "figures": {measure: [_row(row) for row in rows] for measure, rows in vars(figures).items()},
    }


def _row(row: Drain | Enqueue | Pickup | Idle) -> dict[str, Any]:
    return asdict(row) if isinstance(row, Pickup) else {**asdict(row), "rate": row.rate}


def _panels(figures: Figures, conditions: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    backlog = conditions["plan"]["backlog"]
    yield from _drains("Drain: jobs a second, best setting, median and range of the rounds", figures.drains)
    yield from _drains(f"The same with {backlog:,} queued jobs in the table", figures.backlogs)
    for how, rows in grouped(figures.enqueues, lambda row: row.how).items():
        bars = [
            {"name": name, **_spread([row.rate for row in of_one])}
            for name, of_one in grouped(rows, lambda row: row.competitor).items()
        ]
        yield {"title": f"Enqueue, {how}: jobs a second", "format": "{:,.0f}", "bars": bars}
    if times := latencies(figures.pickups):
        bars = [
            {"name": name, "value": statistics.median(each), "most": percentile(each, 99)}
            for name, each in times.items()
        ]
        yield {"title": "Pickup by an idle worker: ms, p50 and p99", "format": "{:.2f}", "bars": bars}
    if figures.idles:
        bars = [{"name": row.competitor, "value": row.rate} for row in figures.idles]
        yield {"title": "Idle worker: transactions a second", "format": "{:.2f}", "bars": bars}


def _drains(title: str, drains: Sequence[Drain]) -> Iterator[dict[str, Any]]:
    if drains:
        bars = [
            {"name": name, "value": rate.median, "least": rate.least, "most": rate.most}
            for name, (_, rate) in best_drains(drains).items()
        ]
        yield {"title": title, "format": "{:,.0f}", "bars": bars}


def _spread(rates: Sequence[float]) -> dict[str, float]:
    rate = spread(rates)
    return {"value": rate.median, "least": rate.least, "most": rate.most}
