"""Postgres as the store under test: two new tenants for all runs, watched and moved in time by an administrator."""

import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
from typing_extensions import override

from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.ids import JobId, uuid7
from app.domain.jobs import Attempt, AttemptOutcome, Job, JobError, JobState, Progress
from tests.conformance.store_under_test import OpenStore, Seen, StoreUnderTest
from tests.support.databases import Cloned
from tests.support.postgres_rig import SHIFT, postgres_rig

JOBS = """
select j.*, j.last_error as error, r.data as result
from daira.jobs j left join daira.results r on r.tenant_id = j.tenant_id and r.job_id = j.id
where j.tenant_id = any($1)
"""
ATTEMPTS = "select * from daira.job_attempts where tenant_id = any($1) order by job_id, attempt"
# Of these tenants alone, and with the history, which the rig leaves where it is.
SHIFT_ALL = f"""
with attempts as (
    update daira.job_attempts set started_at = started_at - $1::interval, finished_at = finished_at - $1::interval
    where tenant_id = any($2)
)
{SHIFT} where tenant_id = any($2)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresUnderTest(StoreUnderTest):
    admin: asyncpg.Connection

    @override
    async def look(self) -> dict[JobId, Seen]:
        """As the tables have it, with nothing in between: ten times as fast as through the ports."""
        history: defaultdict[JobId, list[Attempt]] = defaultdict(list)
        for row in await self.admin.fetch(ATTEMPTS, self.tenants):
            history[row["job_id"]].append(_attempt(row))
        return {
            row["id"]: self.seen(_job(row), history[row["id"]]) for row in await self.admin.fetch(JOBS, self.tenants)
        }


def postgres_under_test(cloned: Cloned) -> OpenStore:
    @asynccontextmanager
    async def open_store() -> AsyncIterator[StoreUnderTest]:
        engine, passed = PostgresEngine(cloned.app_url, pool_size=2, name="test"), timedelta()
        rig = postgres_rig(cloned, engine)
        documents = [await rig.document(await rig.tenant(f"{name}-{uuid7().hex}")) for name in ("acme", "bolt")]
        tenants = [document.tenant_id for document in documents]
        async with administer(cloned.admin_url) as admin:
            await admin.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")

            async def advance(delta: timedelta) -> None:
                nonlocal passed
                passed += delta
                await admin.execute(SHIFT_ALL, delta, tenants)

            yield PostgresUnderTest(
                rig=replace(rig, advance=advance),
                documents=documents,
                now=lambda: _clock() + passed,
                moved=lambda: passed,
                admin=admin,
            )
            await admin.execute("delete from daira.tenants where tenant_id = any($1)", tenants)
        assert engine.checked_out() == 0
        await engine.close()

    return open_store


def _clock() -> datetime:
    """The server's, which is on this machine: cut off at the microsecond as Postgres does it, not rounded."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time.time_ns() // 1_000)


def _job(row: Mapping[str, Any]) -> Job:
    job = Job(**{field.name: row[field.name] for field in fields(Job)})
    progress = row["progress"] and Progress(**row["progress"])
    return replace(job, state=JobState(row["state"]), progress=progress, error=_error(row))


def _attempt(row: Mapping[str, Any]) -> Attempt:
    attempt = Attempt(**{field.name: row[field.name] for field in fields(Attempt)})
    return replace(attempt, outcome=AttemptOutcome(row["outcome"]), error=_error(row))


def _error(row: Mapping[str, Any]) -> JobError | None:
    return JobError(**row["error"]) if row["error"] else None
