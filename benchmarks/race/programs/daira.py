"""Daira: a worker of the real program with a no-op handler, logged in as `daira_app` under row-level security."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import uvloop
from typing_extensions import override

from app.adapters.postgres.engine import administer
from app.adapters.postgres.isolation.roles import APP, OWNER, make_roles
from app.adapters.postgres.migrations import migrate
from app.bootstrap import open_runtime
from app.domain.doorbells import Lane, Ring
from app.domain.ids import JobId, TenantId, tenant_id, uuid7
from app.domain.jobs import NewJob
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Outcome
from app.ports.database import Database
from app.ports.doorbell import Doorbell
from app.ports.leases import ProgressReporter
from app.settings import Role, Settings
from app.telemetry import Metrics, set_up_logging
from app.wiring import open_doorbells, open_store
from benchmarks.race.program import About, Adder, Program, Setting, Started, answer

TENANTS = 50

# Adds rows like those of `tx.jobs.add` and `Doorbell.ring`, but in one statement.
PRELOAD = """
with added as (
    insert into daira.jobs (tenant_id, id, kind, payload, run_after, ring_after)
    select 'tenant-' || n % $2, uuidv7(), 'ocr', jsonb_build_object('number', n), now(), now() + interval '5 seconds'
    from unnest($1::int[]) n returning tenant_id, id
), rung as (
    insert into daira.doorbells (lane, tenant_id, job_id) select 'ocr', tenant_id, id from added
)
select pg_notify('daira_ocr', '')
"""
BURY = f"""
insert into daira.jobs (tenant_id, id, kind, payload, run_after, ring_after)
select 'tenant-' || n % {TENANTS}, uuidv7(), 'ocr', jsonb_build_object('number', n),
       now() + interval '1 day', now() + interval '1 day 5 seconds'
from generate_series(1, $1::int) n
"""  # noqa: S608 - our own number


@dataclass(frozen=True)
class Nothing:
    started: Started
    kind: str = "ocr"

    async def run(self, job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        number = job.payload["number"]
        assert isinstance(number, int)
        self.started(number)
        return Done()


class Daira(Program):
    about = About(
        name="daira",
        packages=["asyncpg", "sqlalchemy", "uvloop"],
        settings=[{"label": f"{slots} slots", "slots": slots} for slots in (500, 1_000, 250, 64)],
        settled="select count(*) from daira.job_attempts",
        forget="truncate daira.jobs, daira.doorbells cascade",
        bury=BURY,
        bulk="one transaction of one tenant, tx.jobs.add for each, then one ring",
        notes=[
            f"{TENANTS} tenants in turn, forced row-level security, login daira_app; the queue is the same Postgres",
            "DAIRA_LANES=ocr=<slots>, DAIRA_ROLE=worker, no OCR engine; everything else as by default; uvloop",
            "a job is settled when its attempt is in daira.job_attempts, which the same transaction makes `done`",
        ],
    )

    @override
    async def install(self, dsn: str) -> None:
        database = dsn.partition("?")[0].rpartition("/")[2]
        owner_url = _as(OWNER, dsn)
        await make_roles(dsn, owner_url=owner_url, app_url=_as(APP, dsn))
        async with administer(dsn) as admin:
            await admin.execute(f"alter database {database} owner to {OWNER}")
        await migrate(owner_url)
        async with administer(dsn) as admin:
            await admin.execute(
                "insert into daira.tenants (tenant_id) select 'tenant-' || n from generate_series(0, $1 - 1) n", TENANTS
            )

    @override
    async def work(self, dsn: str, setting: Setting, started: Started) -> None:
        set_up_logging(level="error", human=True)
        settings = _settings(dsn, Role.WORKER, slots=setting["slots"])
        async with open_runtime(settings, Metrics(), handlers=[Nothing(started)]) as runtime:
            assert runtime.worker is not None
            runtime.worker.start()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await runtime.worker.stop()

    @override
    @asynccontextmanager
    async def open_adder(self, dsn: str, *, connections: int) -> AsyncIterator[Adder]:
        settings = _settings(dsn, Role.WEB, pool_size=connections)
        async with AsyncExitStack() as stack:
            store = await open_store(settings, stack)
            doorbells = await open_doorbells(settings, stack, Metrics())
            yield DairaAdder(dsn=dsn, database=store.database, doorbell=doorbells[Lane.OCR])


@dataclass(frozen=True, kw_only=True)
class DairaAdder(Adder):
    dsn: str
    database: Database
    doorbell: Doorbell

    @override
    async def add(self, number: int, *, connection: int) -> None:
        await self.add_many([number])

    @override
    async def add_many(self, numbers: Sequence[int]) -> None:
        tenant = _tenant(numbers[0])
        jobs = [NewJob(id=JobId(uuid7()), kind="ocr", payload={"number": number}) for number in numbers]
        async with self.database.begin(tenant) as tx:
            for job in jobs:
                assert await tx.jobs.add(job)
        await self.doorbell.ring([Ring(tenant, job.id) for job in jobs])

    @override
    async def preload(self, numbers: Sequence[int]) -> None:
        async with administer(self.dsn) as admin:
            await admin.execute(PRELOAD, list(numbers), TENANTS)


def _settings(dsn: str, role: Role, *, slots: int = 2, pool_size: int = 10) -> Settings:
    for name in [name for name in os.environ if name.startswith("DAIRA_")]:
        del os.environ[name]
    return Settings.model_validate(
        {
            "database_url": _as(APP, dsn),
            "blob_url": "memory://",
            "role": role,
            "ocr": "null",
            "lanes": f"ocr={slots}",
            "pool_size": pool_size,
        }
    )


def _tenant(number: int) -> TenantId:
    return tenant_id(f"tenant-{number % TENANTS}")


def _as(user: str, dsn: str) -> str:
    return dsn.replace("//postgres@", f"//{user}@", 1)


if __name__ == "__main__":
    answer(Daira(), uvloop.run)
