"""The rig on Postgres: the adapters with the application's rights, and time moved by an administrator."""

from datetime import timedelta

from sqlalchemy import text

from app.adapters.postgres.database import PostgresDatabase
from app.adapters.postgres.engine import PostgresEngine, administer
from app.adapters.postgres.leases import PostgresLeases
from app.adapters.postgres.sweeps import PostgresSweeps
from app.adapters.postgres.tables import doorbells, metadata
from tests.support.databases import Cloned
from tests.support.rig import Rig

TENANT_TABLES = [table for table in metadata.sorted_tables if table is not doorbells]

SHIFT_KEYS = """
update daira.idempotency_keys set created_at = created_at - $1::interval, expires_at = expires_at - $1::interval
"""

SHIFT = """
update daira.jobs set run_after = run_after - $1::interval, ring_after = ring_after - $1::interval,
    lease_until = lease_until - $1::interval, started_at = started_at - $1::interval,
    created_at = created_at - $1::interval, finished_at = finished_at - $1::interval
"""


def postgres_rig(cloned: Cloned, engine: PostgresEngine) -> Rig:
    async def advance(delta: timedelta) -> None:
        """Time passes for what is stored: all of it moves into the past."""
        async with administer(cloned.admin_url) as admin:
            await admin.execute(SHIFT, delta)
            await admin.execute(SHIFT_KEYS, delta)

    async def tenantless_counts() -> dict[str, int]:
        async with engine.begin() as connection:
            return {
                table.name: (await connection.execute(text(f"select count(*) from {table.fullname}"))).scalar_one()
                for table in TENANT_TABLES
            }

    return Rig(
        database=PostgresDatabase(engine),
        leases=PostgresLeases(engine),
        sweeps=PostgresSweeps(engine),
        advance=advance,
        tenantless_counts=tenantless_counts,
    )
