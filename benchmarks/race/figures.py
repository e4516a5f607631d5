"""The figures and what follows from them: medians, best settings, ratios, and targets met or missed."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.race.drain import Drain
from benchmarks.race.enqueue import Enqueue
from benchmarks.race.idle import Idle
from benchmarks.race.pickup import Pickup

T = TypeVar("T")

OURS, RIVAL, LIMIT = "daira", "pgqueuer", "raw"
PEERS = ("pgqueuer", "procrastinate", "oban")


@dataclass(kw_only=True)
class Figures:
    tries: list[Drain] = field(default_factory=list)
    """One drain of each setting, to choose the settings for the rounds."""
    drains: list[Drain] = field(default_factory=list)
    backlogs: list[Drain] = field(default_factory=list)
    enqueues: list[Enqueue] = field(default_factory=list)
    pickups: list[Pickup] = field(default_factory=list)
    idles: list[Idle] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Spread:
    median: float
    least: float
    most: float


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target with its figure; None if a part of it was not measured."""

    text: str
    figure: str
    met: bool | None


def spread(values: Iterable[float]) -> Spread:
    known = sorted(values)
    return Spread(median=statistics.median(known), least=known[0], most=known[-1])


def grouped(rows: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def best_drains(drains: Sequence[Drain]) -> dict[str, tuple[str, Spread]]:
    """The setting with the highest median, by competitor."""
    best: dict[str, tuple[str, Spread]] = {}
    for name, of_one in grouped(drains, lambda row: row.competitor).items():
        by_setting = grouped(of_one, lambda row: row.setting)
        rates = {setting: spread(row.rate for row in rows) for setting, rows in by_setting.items()}
        setting = max(rates, key=lambda label: rates[label].median)
        best[name] = (setting, rates[setting])
    return best


def percentile(values: Iterable[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def latencies(pickups: Sequence[Pickup]) -> dict[str, list[float]]:
    """The latencies of all rounds together, by competitor."""
    groups = grouped(pickups, lambda row: row.competitor)
    return {name: [each for row in rows for each in row.latencies_ms] for name, rows in groups.items()}


def targets(figures: Figures) -> list[Target]:
    return [*_drain_targets(figures), *_pickup_targets(figures), _idle_target(figures)]


def _drain_targets(figures: Figures) -> list[Target]:
    drained = {name: rate.median for name, (_, rate) in best_drains(figures.drains).items()}
    buried = {name: rate.median for name, (_, rate) in best_drains(figures.backlogs).items()}
    return [
        _ratio("drain, of pgqueuer's best", drained.get(OURS), drained.get(RIVAL), at_least=3),
        _ratio("drain, of the raw limit", drained.get(OURS), drained.get(LIMIT), at_least=0.4),
        _ratio("drain on the backlog, of that without", buried.get(OURS), drained.get(OURS), at_least=0.9),
    ]


def _ratio(text: str, ours: float | None, theirs: float | None, *, at_least: float) -> Target:
    text = f"{text}: at least {at_least:g}"
    if ours is None or theirs is None:
        return Target(text=text, figure="not measured", met=None)
    return Target(text=text, figure=f"{ours / theirs:.2f}", met=ours / theirs >= at_least)


def _pickup_targets(figures: Figures) -> list[Target]:
    of_all = latencies(figures.pickups)
    medians = {name: statistics.median(of_all[name]) for name in PEERS if of_all.get(name)}
    texts = ("pickup p50: at most the best peer's", "pickup p99: at most 30 ms")
    if not of_all.get(OURS):
        return [Target(text=text, figure="not measured", met=None) for text in texts]
    p50, p99 = statistics.median(of_all[OURS]), percentile(of_all[OURS], 99)
    # A job that never started has no latency.
    missing = sum(row.missing for row in figures.pickups if row.competitor == OURS)
    best = min(medians.values(), default=None)
    return [
        Target(text=texts[0], figure=f"{p50:.1f} ms", met=None)
        if best is None
        else Target(text=texts[0], figure=f"{p50:.1f} against {best:.1f} ms", met=p50 <= best),
        Target(text=texts[1], figure=f"{p99:.1f} ms", met=p99 <= 30 and not missing),  # noqa: PLR2004 - as the text says
    ]


def _idle_target(figures: Figures) -> Target:
    text = "idle: at most 1 transaction a second"
    ours = [row for row in figures.idles if row.competitor == OURS]
    if not ours:
        return Target(text=text, figure="not measured", met=None)
    return Target(text=text, figure=f"{ours[0].rate:.2f} a second", met=ours[0].rate <= 1)
