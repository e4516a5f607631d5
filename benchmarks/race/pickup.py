"""The latency of a single job with an idle worker: from just before the client's call to the handler's first act.

Both processes use CLOCK_MONOTONIC, which all processes of a machine share. The call's commit is included.
"""

import asyncio
from dataclasses import dataclass

from benchmarks.race.competitor import WARM_UP, Competitor
from benchmarks.race.processes import Running
from benchmarks.race.program import Order

FIRST_CALLS = 20
"""Calls that are not measured. A client that connects with its first call would pay for it, and others would not."""

PATIENCE = 10
"""Seconds after the last call until a job that did not start counts as missing."""


@dataclass(frozen=True, kw_only=True)
class Pickup:
    competitor: str
    setting: str
    latencies_ms: list[float]
    calls_ms: list[float]
    """The duration of the client's calls, which is part of every latency."""
    missing: int


async def pickup(competitor: Competitor, *, jobs: int) -> Pickup:
    await competitor.forget()
    async with competitor.warm_worker(competitor.best, echo=True) as (worker, adder):
        started: dict[int, int] = {}
        listening = asyncio.create_task(_listen(worker, started, count=WARM_UP + FIRST_CALLS + jobs))
        await adder.ask(Order(do="one_by_one", count=FIRST_CALLS))
        said = await adder.ask(Order(do="pickup", count=jobs))
        await asyncio.wait({listening}, timeout=PATIENCE)
        listening.cancel()
    sent = {int(number): int(at) for number, at in said["sent"]}
    return Pickup(
        competitor=competitor.name,
        setting=competitor.best["label"],
        latencies_ms=[(started[number] - at) / 1e6 for number, at in sent.items() if number in started],
        calls_ms=said["calls_ms"],
        missing=len(sent.keys() - started.keys()),
    )


async def _listen(worker: Running, started: dict[int, int], *, count: int) -> None:
    while len(started) < count:
        number, at = (await worker.line()).split()
        started.setdefault(int(number), int(at))
