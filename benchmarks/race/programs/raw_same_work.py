"""The same writes as Daira's in plain asyncpg loops: the difference to Daira is row-level security and Python.

They use Daira's own tables as the migrations make them, but as a superuser, whom row-level security does not bind.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import uvloop
from typing_extensions import override

from benchmarks.race.program import About, Adder, Program, Setting, Started, answer
from benchmarks.race.programs.daira import TENANTS, Daira

TAKE = """
delete from daira.doorbells where ctid = any(array(
    select ctid from daira.doorbells where lane = 'ocr' and due_at <= now() order by due_at limit $1
    for update skip locked
)) returning tenant_id, job_id
"""
CLAIM = """
with held as materialized (
    select j.* from unnest($1::text[], $2::uuid[]) u(tenant_id, id) cross join lateral (
        select x.tenant_id, x.id, x.state from daira.jobs x
        where x.tenant_id = u.tenant_id and x.id = u.id for update skip locked offset 0
    ) j
)
update daira.jobs j set state = 'claimed', attempts = attempts + 1, claimed_by = 'raw', rings = 0, progress = null,
                        lease_until = now() + interval '1 minute', started_at = now()
from held h where h.state = 'queued' and j.tenant_id = h.tenant_id and j.id = h.id
returning j.tenant_id, j.id, j.attempts
"""
SETTLE = """
with settled as (
    update daira.jobs j set state = 'done', claimed_by = null, lease_until = null, rings = 0, finished_at = now()
    from unnest($1::text[], $2::uuid[], $3::int[]) u(tenant_id, id, attempt)
    where j.tenant_id = u.tenant_id and j.id = u.id and j.state = 'claimed' and j.attempts = u.attempt
    returning j.tenant_id, j.id, j.attempts, j.started_at
)
insert into daira.job_attempts (tenant_id, job_id, attempt, worker, started_at, outcome)
select tenant_id, id, attempts, 'raw', started_at, 'done' from settled
"""


class RawSameWork(Program):
    about = About(
        name="raw, same work",
        packages=["asyncpg", "uvloop"],
        settings=[
            {"label": f"{loops} x batch {batch}", "loops": loops, "batch": batch}
            for loops, batch in ((1, 500), (2, 500), (1, 1_000), (2, 250), (2, 1_000), (3, 250))
        ],
        settled=Daira.about.settled,
        forget=Daira.about.forget,
        notes=[
            f"Daira's migrated tables with all indexes and keys, {TENANTS} tenants, but as superuser: no tenant wall;",
            "a loop has a connection: 1. bells deleted, 2. jobs claimed by id, 3. jobs settled and attempts inserted;",
            "three commits for each batch; asyncpg, uvloop",
        ],
        measures=["drain"],
    )

    @override
    async def install(self, dsn: str) -> None:
        await Daira().install(dsn)

    @override
    async def work(self, dsn: str, setting: Setting, started: Started) -> None:
        await asyncio.gather(*(_loop(dsn, setting["batch"]) for _ in range(setting["loops"])))

    @override
    @asynccontextmanager
    async def open_adder(self, dsn: str, *, connections: int) -> AsyncIterator[Adder]:
        async with Daira().open_adder(dsn, connections=connections) as adder:
            yield adder


async def _loop(dsn: str, batch: int) -> None:
    connection = await asyncpg.connect(dsn)
    heard = asyncio.Event()
    await connection.add_listener("daira_ocr", lambda *_: heard.set())
    while True:
        heard.clear()
        bells = await connection.fetch(TAKE, batch)
        if not bells:
            await heard.wait()
            continue
        claimed = await connection.fetch(
            CLAIM, [bell["tenant_id"] for bell in bells], [bell["job_id"] for bell in bells]
        )
        await connection.execute(
            SETTLE,
            [job["tenant_id"] for job in claimed],
            [job["id"] for job in claimed],
            [job["attempts"] for job in claimed],
        )


if __name__ == "__main__":
    answer(RawSameWork(), uvloop.run)
