"""pgqueuer over asyncpg, with its autovacuum settings and its default, durable tables."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from typing_extensions import override

from benchmarks.race.program import About, Adder, Program, Setting, Started, answer

NAME = "nothing"


class Pgqueuer(Program):
    about = About(
        name="pgqueuer",
        packages=["pgqueuer", "asyncpg", "uvloop"],
        settings=[
            {"label": "batch 500", "batch": 500},
            {"label": "batch 500, pool of 4", "batch": 500, "pool": 4},
            {"label": "batch 1000", "batch": 1_000},
            {"label": "batch 250", "batch": 250},
            {"label": "batch 100", "batch": 100},
            {"label": "batch 250, 3 managers", "batch": 250, "managers": 3},
            {"label": "batch 10, the default", "batch": 10},
        ],
        settled="select count(*) from pgqueuer_log where status = 'successful'",
        forget="truncate pgqueuer, pgqueuer_log, pgqueuer_statistics",
        bury=f"""
            insert into pgqueuer (priority, entrypoint, payload, execute_after, status)
            select 0, '{NAME}', convert_to(n::text, 'UTF8'), now() + interval '1 day', 'queued'
            from generate_series(1, $1::int) n
        """,  # noqa: S608 - our own name
        bulk="Queries.enqueue with lists of 1,000",
        notes=[
            "installed by Queries.install (durable) and optimize_autovacuum, as `pgq install` and `pgq autovac`;",
            "PgQueuer.run as `pgq run` starts it, uvloop, as `pgq` takes it when it is there; no concurrency limits;",
            "completions are buffered up to the batch size, or for 0.1 s (fixed), and delete the row;",
            "a job is settled when pgqueuer_log has it as successful, which the same statement deletes from the queue",
        ],
    )

    @override
    async def install(self, dsn: str) -> None:
        connection = await asyncpg.connect(dsn)
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        await queries.optimize_autovacuum()
        await connection.close()

    @override
    async def work(self, dsn: str, setting: Setting, started: Started) -> None:
        async def nothing(job: Job) -> None:
            assert job.payload is not None
            started(int(job.payload))

        managers = [await _manager(dsn, setting) for _ in range(setting.get("managers", 1))]
        for manager in managers:
            manager.entrypoint(NAME)(nothing)
        await asyncio.gather(*(manager.run(batch_size=setting["batch"]) for manager in managers))

    @override
    @asynccontextmanager
    async def open_adder(self, dsn: str, *, connections: int) -> AsyncIterator[Adder]:
        opened = [await asyncpg.connect(dsn) for _ in range(connections)]
        yield PgqueuerAdder([Queries(AsyncpgDriver(connection)) for connection in opened])
        for connection in opened:
            await connection.close()


@dataclass(frozen=True)
class PgqueuerAdder(Adder):
    queries: Sequence[Queries]

    @override
    async def add(self, number: int, *, connection: int) -> None:
        await self.queries[connection].enqueue(NAME, str(number).encode())

    @override
    async def add_many(self, numbers: Sequence[int]) -> None:
        payloads = [str(number).encode() for number in numbers]
        await self.queries[0].enqueue([NAME] * len(numbers), payloads, [0] * len(numbers))


async def _manager(dsn: str, setting: Setting) -> PgQueuer:
    if size := setting.get("pool"):
        return PgQueuer.from_asyncpg_pool(await asyncpg.create_pool(dsn, min_size=size, max_size=size))
    return PgQueuer.from_asyncpg_connection(await asyncpg.connect(dsn))


if __name__ == "__main__":
    answer(Pgqueuer(), uvloop.run)
