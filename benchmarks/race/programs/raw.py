"""The raw limit: plain asyncpg loops that claim and settle batches on the simplest table, without any product."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
import uvloop
from typing_extensions import override

from benchmarks.race.program import About, Adder, Program, Setting, Started, answer

TABLE = """
create table jobs (id bigint generated always as identity primary key, state text not null default 'queued',
                   number integer not null) with (fillfactor = 70);
create index on jobs (id) where state = 'queued';
"""
CLAIM = """
with c as materialized (
    select id from jobs where state = 'queued' order by id limit $1 for update skip locked
)
update jobs j set state = 'claimed' from c where j.id = c.id returning j.id, j.number
"""
SETTLE = "update jobs set state = 'done' where id = any($1)"
ADD = "with added as (insert into jobs (number) values ($1)) select pg_notify('jobs', '')"
ADD_MANY = "with added as (insert into jobs (number) select unnest($1::int[])) select pg_notify('jobs', '')"


class Raw(Program):
    about = About(
        name="raw",
        packages=["asyncpg", "uvloop"],
        settings=[
            {"label": f"{loops} x batch {batch}", "loops": loops, "batch": batch}
            for loops, batch in ((1, 1_000), (2, 1_000), (1, 500), (1, 2_500), (2, 250), (2, 500))
        ],
        settled="select count(*) from jobs where state = 'done'",
        forget="truncate jobs",
        bulk="one INSERT of 1,000",
        notes=[
            "table jobs (id, state, number), index on (id) where queued; superuser; asyncpg, uvloop; a loop with a",
            "connection of its own does, again and again:",
            "1. claim: UPDATE … FROM (SELECT … FOR UPDATE SKIP LOCKED LIMIT batch); 2. UPDATE … WHERE id = any($1);",
            "two commits for each batch; when there is nothing it waits for a notification",
        ],
        measures=["drain", "enqueue", "pickup"],
    )

    @override
    async def install(self, dsn: str) -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(TABLE)
        await connection.close()

    @override
    async def work(self, dsn: str, setting: Setting, started: Started) -> None:
        await asyncio.gather(*(_loop(dsn, setting["batch"], started) for _ in range(setting["loops"])))

    @override
    @asynccontextmanager
    async def open_adder(self, dsn: str, *, connections: int) -> AsyncIterator[Adder]:
        opened = [await asyncpg.connect(dsn) for _ in range(connections)]
        yield RawAdder(opened)
        for connection in opened:
            await connection.close()


async def _loop(dsn: str, batch: int, started: Started) -> None:
    connection = await asyncpg.connect(dsn)
    heard = asyncio.Event()
    await connection.add_listener("jobs", lambda *_: heard.set())
    while True:
        heard.clear()
        claimed = await connection.fetch(CLAIM, batch)
        for row in claimed:
            started(row["number"])
        if claimed:
            await connection.execute(SETTLE, [row["id"] for row in claimed])
        else:
            await heard.wait()


@dataclass(frozen=True)
class RawAdder(Adder):
    connections: Sequence[asyncpg.Connection]

    @override
    async def add(self, number: int, *, connection: int) -> None:
        await self.connections[connection].execute(ADD, number)

    @override
    async def add_many(self, numbers: Sequence[int]) -> None:
        await self.connections[0].execute(ADD_MANY, list(numbers))


if __name__ == "__main__":
    answer(Raw(), uvloop.run)
