"""The plan of a run: the full one, or the measures and amounts asked for."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from benchmarks.race.processes import ROOT

RESULTS = ROOT / "benchmarks" / "results"
MEASURES = ("drain", "backlog", "enqueue", "pickup", "idle")
COMPETITORS = ("raw", "raw_same_work", "daira", "pgqueuer", "procrastinate", "oban")
QUICK = {
    "jobs": 8_000, "settings": 2, "finalists": 1, "rounds": 2, "limit": 3.0, "backlog": 100_000, "enqueues": 200,
    "pickups": 60, "idle_settle": 12.0, "idle_seconds": 12.0,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Plan:
    jobs: int
    settings: int
    finalists: int
    rounds: int
    limit: float
    backlog: int
    enqueues: int
    connections: int
    pickups: int
    idle_settle: float
    idle_seconds: float
    only: tuple[str, ...]
    competitors: tuple[str, ...]
    out: Path
    peers_python: Path | None


def parse(description: str) -> Plan:
    parser = argparse.ArgumentParser(
        prog="daira bench queues", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="a smaller run: some 3 minutes instead of 15, and rougher figures")
    add(
        "--only", type=_some(MEASURES), default=MEASURES, metavar="A,B", help=f"measures to take: {', '.join(MEASURES)}"
    )
    add(
        "--competitors",
        type=_some(COMPETITORS),
        default=COMPETITORS,
        metavar="A,B",
        help=f"competitors to measure: {', '.join(COMPETITORS)}",
    )
    add("--jobs", type=int, default=20_000, help="jobs to drain")
    add("--settings", type=int, default=99, help="settings of each competitor to try once, the likeliest first")
    add("--finalists", type=int, default=2, help="settings of each competitor that take part in the rounds")
    add("--rounds", type=int, default=3, help="rounds of all competitors in turn; the median counts")
    add("--limit", type=float, default=10, metavar="S", help="seconds for a drain; only jobs settled by then count")
    add("--backlog", type=int, default=1_000_000, help="queued jobs, not due for a day, beneath the second drain")
    add("--enqueues", type=int, default=2_000, help="calls of each client in a round")
    add("--connections", type=int, default=8, help="connections of a client that enqueues on several at once")
    add("--pickups", type=int, default=300, help="single jobs for an idle worker, in all rounds together")
    add("--idle-settle", type=float, default=30, metavar="S", help="seconds until the idle load is counted")
    add("--idle-seconds", type=float, default=60, metavar="S", help="seconds of idleness to count")
    add(
        "--out",
        type=Path,
        default=RESULTS,
        metavar="FOLDER",
        help="folder for queues.json and queues.svg; default: %(default)s",
    )
    add("--peers-python", type=Path, metavar="FILE", help="an interpreter for the peers' environment, 3.12 or later")
    # A quick run has other defaults; figures given by hand count.
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(**QUICK)
    given = vars(parser.parse_args())
    del given["quick"]
    return Plan(**given)


class _some:  # noqa: N801 - reads as a type of argument
    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known

    def __call__(self, text: str) -> tuple[str, ...]:
        wanted = tuple(text.split(","))
        if unknown := sorted(set(wanted) - set(self._known)):
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}: of {', '.join(self._known)}")
        return tuple(name for name in self._known if name in wanted)
