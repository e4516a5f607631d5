"""The Postgres adapters keep the contracts, on a real server and with the rights that they have in production."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.adapters.postgres.database import PostgresDatabase
from app.adapters.postgres.doorbell import PostgresDoorbell
from app.adapters.postgres.engine import Engine, administer
from app.adapters.postgres.leases import PostgresLeases
from app.adapters.postgres.sweeps import PostgresSweeps
from app.adapters.postgres.tables import doorbells, metadata
from app.ports.doorbell import Doorbell
from tests.conformance.database_suite import DatabaseSuite
from tests.conformance.documents_suite import DocumentsSuite
from tests.conformance.doorbell_suite import DoorbellSuite
from tests.conformance.jobs_suite import JobsSuite
from tests.conformance.keys_suite import KeysSuite
from tests.conformance.leases_suite import LeasesSuite
from tests.conformance.sweeps_suite import SweepsSuite
from tests.support.databases import Cloned
from tests.support.rig import Rig

SHIFT = """
update daira.jobs set run_after = run_after - $1::interval, ring_after = ring_after - $1::interval,
    lease_until = lease_until - $1::interval, started_at = started_at - $1::interval,
    created_at = created_at - $1::interval, finished_at = finished_at - $1::interval
"""


@pytest.fixture
def rig(cloned: Cloned, engine: Engine) -> Rig:
    async def advance(delta: timedelta) -> None:
        """Time passes for what is stored: all of it moves into the past."""
        async with administer(cloned.admin_url) as admin:
            await admin.execute(SHIFT, delta)

    async def tenantless_counts() -> dict[str, int]:
        tables = [table for table in metadata.sorted_tables if table is not doorbells]
        async with engine.begin() as connection:
            return {
                table.name: (await connection.execute(text(f"select count(*) from {table.fullname}"))).scalar_one()  # noqa: S608
                for table in tables
            }

    return Rig(
        database=PostgresDatabase(engine),
        leases=PostgresLeases(engine),
        sweeps=PostgresSweeps(engine),
        advance=advance,
        tenantless_counts=tenantless_counts,
    )


@pytest.fixture
async def doorbell(cloned: Cloned, engine: Engine) -> AsyncIterator[Doorbell]:
    doorbell = PostgresDoorbell(engine, lane="ocr", listen_url=cloned.app_url)
    yield doorbell
    await doorbell.close()


class TestPostgresDatabase(DatabaseSuite):
    pass


class TestPostgresKeys(KeysSuite):
    pass


class TestPostgresDocuments(DocumentsSuite):
    pass


class TestPostgresJobs(JobsSuite):
    pass


class TestPostgresLeases(LeasesSuite):
    pass


class TestPostgresSweeps(SweepsSuite):
    pass


class TestPostgresDoorbell(DoorbellSuite):
    pass
