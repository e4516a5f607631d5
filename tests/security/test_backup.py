"""A backup holds every tenant's rows, and what is restored from it has its wall: docs/backup.md, tried."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.adapters.postgres.engine import PostgresEngine, administer
from app.adapters.postgres.isolation.roles import make_roles
from app.domain.ids import tenant_id, uuid7
from app.embedded import binaries
from tests.security.clamps import TABLES, clamped, counts
from tests.security.test_breaches import faults
from tests.support.databases import Cloned, with_database
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import Rig, new_page

COUNTS = "select tenant_id, count(*) from daira.{table} group by 1 order by 1"
POLICIES = "select tablename, policyname, permissive, roles, cmd, qual, with_check from pg_policies order by 1, 2"


def program(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = binaries.find_binaries(None).bin / name
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    return subprocess.run([path, *arguments], env=kept, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
async def backup(cloned: Cloned) -> AsyncIterator[str]:
    """The URL of a role as the documentation makes it; of another name, since roles are the whole server's."""
    role = f"backup_{uuid7().hex}"
    async with administer(cloned.admin_url) as admin:
        database = await admin.fetchval("select current_database()")
        await admin.execute(f"create role {role} login bypassrls in role pg_read_all_data")
        await admin.execute(f"grant connect on database {database} to {role}")
        yield cloned.app_url.replace("daira_app@", f"{role}@")
        await admin.execute(f"drop owned by {role}; drop role {role}")


@pytest.fixture
async def restored(cloned: Cloned) -> AsyncIterator[Cloned]:
    """A new and empty database, which `daira db init` has made."""
    name = f"restored_{uuid7().hex}"
    admin_url, owner_url, app_url = [
        with_database(url, name) for url in (cloned.admin_url, cloned.owner_url, cloned.app_url)
    ]
    await make_roles(cloned.admin_url, owner_url=owner_url, app_url=app_url)
    yield Cloned(admin_url=admin_url, owner_url=owner_url, app_url=app_url)
    async with administer(cloned.admin_url) as admin:
        await admin.execute(f"drop database {name} with (force)")


async def add_fixtures(rig: Rig, tenants: int) -> None:
    for number in range(1, tenants + 1):
        tenant = await rig.tenant(f"tenant-{number}")
        await rig.key(tenant)
        for _ in range(number):
            document = await rig.document(tenant)
            await rig.enqueue(tenant, document_id=document.id)
            async with rig.database.begin(tenant) as tx:
                await tx.pages.replace(document.id, [new_page(), new_page(2)])


@pytest.mark.threat(29)
async def test_threat_29_a_restored_backup_has_every_tenants_rows_and_the_wall(
    cloned: Cloned, engine: PostgresEngine, backup: str, *, restored: Cloned, tmp_path: Path
) -> None:
    await add_fixtures(postgres_rig(cloned, engine), 3)
    file = str(tmp_path / "daira.dump")
    dumped = program("pg_dump", "-Fc", "--no-unlogged-table-data", "-f", file, backup)
    assert dumped.returncode == 0, dumped.stderr
    loaded = program("pg_restore", "--clean", "--if-exists", "--exit-on-error", "-d", restored.admin_url, file)
    assert loaded.returncode == 0, loaded.stderr

    async with administer(cloned.admin_url) as before, administer(restored.admin_url) as after:
        for table in TABLES:
            rows = await before.fetch(COUNTS.format(table=table))
            assert await after.fetch(COUNTS.format(table=table)) == rows
        assert [row["count"] for row in await after.fetch(COUNTS.format(table="pages"))] == [2, 4, 6]
        assert await after.fetch(POLICIES) == await before.fetch(POLICIES) != []
    assert await faults(restored.app_url) == []
    async with administer(restored.app_url) as app:
        assert await counts(app) == dict.fromkeys(TABLES, 0)
        async with clamped(app, "tenant-2"):
            assert (await counts(app))["documents"] == 2
    anew = PostgresEngine(restored.app_url, pool_size=1, name="test")
    rig = postgres_rig(restored, anew)
    job = await rig.enqueue(tenant_id("tenant-3"))
    assert await rig.lease(job)
    await anew.close()


@pytest.mark.threat(29)
async def test_threat_29_a_role_that_the_wall_binds_makes_no_backup_rather_than_an_empty_one(
    cloned: Cloned, engine: PostgresEngine, tmp_path: Path
) -> None:
    await add_fixtures(postgres_rig(cloned, engine), 1)
    for url in (cloned.owner_url, cloned.app_url):
        refused = program("pg_dump", "-Fc", "-f", str(tmp_path / "daira.dump"), url)
        assert refused.returncode != 0
        assert "row-level security" in refused.stderr or "permission denied" in refused.stderr
