"""Jobs a second, from the release of a worker that finds all of them queued until the last is seen settled.

The worker runs some jobs first, then it is stopped as a whole (SIGSTOP) while the jobs are added and rung for; SIGCONT
is the release. Both ends are read from the database's clock by another session.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from app.adapters.postgres.engine import administer
from benchmarks.race.competitor import WARM_UP, Competitor
from benchmarks.race.processes import Broken
from benchmarks.race.program import Order, Setting

SHORTEST_LOOK, LONGEST_LOOK = 0.005, 0.5
"""Seconds between looks. Each look costs the server a few milliseconds, so most come near the end."""


@dataclass(frozen=True, kw_only=True)
class Drain:
    competitor: str
    setting: str
    jobs: int
    seconds: float
    complete: bool
    """False if the time was up: then the rate is that of the jobs settled by then."""

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


async def drain(competitor: Competitor, setting: Setting, *, jobs: int, seconds: float, keep: bool = False) -> Drain:
    """Measure a drain. `keep` leaves the rows in the tables."""
    if not keep:
        await competitor.forget()
    async with administer(competitor.dsn) as admin, competitor.warm_worker(setting) as (worker, adder):
        worker.pause()
        await adder.ask(Order(do="preload", count=jobs))
        await admin.execute("vacuum (analyze)")
        await admin.execute("checkpoint")
        before = await competitor.settled(admin)
        released = await admin.fetchval("select clock_timestamp()")
        worker.go_on()
        settled, at = await _watch(competitor, admin, released, before=before, jobs=jobs, seconds=seconds)
    # Kept tables may hold jobs of an earlier drain, and a worker that did not finish the warm-up has some of it left.
    if not keep and settled > jobs + WARM_UP:
        raise Broken(f"{competitor.name} settled {settled} of {jobs} jobs: some of them twice")
    return Drain(
        competitor=competitor.name,
        setting=setting["label"],
        jobs=settled,
        seconds=(at - released).total_seconds(),
        complete=settled >= jobs,
    )


async def _watch(
    competitor: Competitor, admin: asyncpg.Connection, released: datetime, *, before: int, jobs: int, seconds: float
) -> tuple[int, datetime]:
    """The number of jobs settled, and the time when that was seen."""
    # The statement's time is that of its snapshot: the jobs it counts were committed by then.
    look = f"select ({competitor.about['settled']}) as settled, statement_timestamp() as at"
    pause = 0.1
    while True:
        await asyncio.sleep(pause)
        seen = await admin.fetchrow(look)
        settled, spent = seen["settled"] - before, (seen["at"] - released).total_seconds()
        if settled >= jobs or spent >= seconds:
            return settled, seen["at"]
        left = (jobs - settled) * spent / settled if settled else 0.1
        pause = min(max(left * 0.7, SHORTEST_LOOK), LONGEST_LOOK)


async def bury(competitor: Competitor, *, jobs: int) -> None:
    """Fill the table with queued jobs that are not due for a day."""
    await competitor.forget()
    async with administer(competitor.dsn) as admin:
        # No triggers and no foreign keys: adding these rows is not measured.
        await admin.execute("set session_replication_role = replica")
        await admin.execute(competitor.about["bury"], jobs)
        await admin.execute("vacuum (analyze)")
