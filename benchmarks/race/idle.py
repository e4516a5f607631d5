"""The cost of an idle worker: transactions a second and CPU, of all competitors at the same time.

Transactions are those of the worker's database, counted by the server; the observing session is on another one. Those
of autovacuum are included.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.race.competitor import Competitor
from benchmarks.race.processes import Running
from benchmarks.race.server import Server

TICKS = os.sysconf("SC_CLK_TCK")
COUNT = "select xact_commit + xact_rollback from pg_stat_database where datname = $1"


@dataclass(frozen=True, kw_only=True)
class Idle:
    competitor: str
    setting: str
    seconds: float
    transactions: int
    cpu_seconds: float | None
    """User and system time of the worker's process; None without /proc."""

    @property
    def rate(self) -> float:
        return self.transactions / self.seconds


async def idle(server: Server, competitors: Sequence[Competitor], *, settle: float, seconds: float) -> list[Idle]:
    """Measure idle load.

    `settle` is the seconds before counting, because some look less often the longer they are idle.
    """
    async with AsyncExitStack() as stack:
        workers = []
        for competitor in competitors:
            await competitor.forget()
            worker, adder = await stack.enter_async_context(competitor.warm_worker(competitor.best))
            await adder.end()
            workers.append(worker)
        await asyncio.sleep(settle)
        before, started = await _look(server, competitors, workers), time.monotonic()
        await asyncio.sleep(seconds)
        after, spent = await _look(server, competitors, workers), time.monotonic() - started
    return [
        Idle(
            competitor=competitor.name,
            setting=competitor.best["label"],
            seconds=spent,
            transactions=count - earlier,
            cpu_seconds=None if cpu is None or cpu_before is None else cpu - cpu_before,
        )
        for competitor, (earlier, cpu_before), (count, cpu) in zip(competitors, before, after, strict=True)
    ]


async def _look(
    server: Server, competitors: Sequence[Competitor], workers: Sequence[Running]
) -> list[tuple[int, float | None]]:
    return [
        (await server.admin.fetchval(COUNT, competitor.dsn.partition("?")[0].rpartition("/")[2]), _cpu(worker))
        for competitor, worker in zip(competitors, workers, strict=True)
    ]


def _cpu(worker: Running) -> float | None:
    try:
        fields = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS
