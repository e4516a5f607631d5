"""Oban for Python, the open-source edition, over psycopg 3."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvloop
from oban import Oban, worker
from oban.job import Job
from oban.schema import install
from typing_extensions import override

from benchmarks.race.program import About, Adder, Program, Setting, Started, answer

_started: list[Started] = []
"""The callback. Oban finds a worker by its class's path, so it can't be passed as an argument."""


class Nothing:
    async def process(self, job: Job) -> None:
        _started[0](job.args["number"])


NOTHING = worker(queue="default")(Nothing)


class ObanPython(Program):
    about = About(
        name="oban",
        packages=["oban", "psycopg", "psycopg-pool", "psycopg-binary", "uvloop"],
        settings=[{"label": f"limit {limit}", "limit": limit} for limit in (100, 500, 1_000, 10)],
        settled="select count(*) from oban_jobs where state = 'completed'",
        forget="truncate oban_jobs",
        bury="""
            insert into oban_jobs (state, queue, worker, args, scheduled_at)
            select 'scheduled', 'default', '__main__.Nothing', jsonb_build_object('number', n),
                   timezone('UTC', now()) + interval '1 day'
            from generate_series(1, $1::int) n
        """,
        bulk="Oban.enqueue_many of 1,000",
        notes=[
            "installed by oban.schema.install, which sets autovacuum and fillfactor; Oban.create_pool, 10 at most;",
            "one queue with the limit said, everything else as by default; uvloop, as its command takes it;",
            "a job is settled when its row is completed",
        ],
    )

    @override
    async def install(self, dsn: str) -> None:
        pool = await Oban.create_pool(dsn)
        await install(pool)
        await pool.close()

    @override
    async def work(self, dsn: str, setting: Setting, started: Started) -> None:
        _started.append(started)
        pool = await Oban.create_pool(dsn)
        async with Oban(pool=pool, queues={"default": setting["limit"]}):
            await asyncio.get_running_loop().create_future()

    @override
    @asynccontextmanager
    async def open_adder(self, dsn: str, *, connections: int) -> AsyncIterator[Adder]:
        pool = await Oban.create_pool(dsn, min_size=connections, max_size=connections)
        yield ObanAdder(Oban(pool=pool))
        await pool.close()


@dataclass(frozen=True)
class ObanAdder(Adder):
    oban: Oban

    @override
    async def add(self, number: int, *, connection: int) -> None:
        await self.oban.enqueue(NOTHING.new({"number": number}))

    @override
    async def add_many(self, numbers: Sequence[int]) -> None:
        await self.oban.enqueue_many([NOTHING.new({"number": number}) for number in numbers])


if __name__ == "__main__":
    answer(ObanPython(), uvloop.run)
