"""A database that takes no writes is named and waited for; other defaults than ours are overridden."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.adapters.postgres.engine import PostgresEngine, administer
from tests.integration.test_start import BACK, Started, started
from tests.support.databases import Cloned
from tests.support.postgres_pair import of_one, postgres_pair
from tests.support.service import run, serving, wait_until

READ_ONLY = "alter database {name} set default_transaction_read_only = on"
WRITABLE = "alter database {name} reset default_transaction_read_only"
SERIALIZABLE = "alter role daira_app in database {name} set default_transaction_isolation = serializable"
EVERYBODY_OUT = """
select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and usename = 'daira_app'
"""


async def alter(cloned: Cloned, statement: str) -> None:
    """New sessions have the setting, and there are no old ones."""
    async with administer(cloned.admin_url) as admin:
        name = await admin.fetchval("select current_database()")
        await admin.execute("set default_transaction_read_only = off")
        await admin.execute(statement.format(name=name))
        await admin.execute(EVERYBODY_OUT)


async def until_it_is_named(service: Started, why: str) -> None:
    await asyncio.to_thread(wait_until, lambda: why in service.missing().get("database", ""), seconds=BACK)


async def test_a_read_only_database_is_waited_for_at_the_start_and_later(cloned: Cloned, tmp_path: Path) -> None:
    await alter(cloned, READ_ONLY)
    doctor = await asyncio.to_thread(run, "doctor", cwd=tmp_path, DAIRA_DATABASE_URL=cloned.app_url)
    assert doctor.returncode != 0
    assert "the database is read-only" in doctor.stdout
    with started(DAIRA_DATABASE_URL=cloned.app_url) as service:
        await asyncio.to_thread(service.until_it_answers)
        await until_it_is_named(service, "read-only")
        await alter(cloned, WRITABLE)
        await asyncio.to_thread(service.until_ready)
        await alter(cloned, READ_ONLY)
        await until_it_is_named(service, "read-only")
        await alter(cloned, WRITABLE)
        await asyncio.to_thread(service.until_ready)
        assert await asyncio.to_thread(service.stop) == 0


async def test_a_session_that_takes_no_writes_any_more_is_replaced_before_the_statement_fails(cloned: Cloned) -> None:
    """As after a failover where the demoted primary keeps its connections."""
    engine = PostgresEngine(cloned.app_url, pool_size=1, name="test")
    try:
        await engine.call("set default_transaction_read_only = on")
        await engine.call("delete from daira.doorbells where false")
    finally:
        await engine.close()


async def test_a_start_on_a_standby_waits_for_its_promotion() -> None:
    async with postgres_pair() as pair:
        with started(DAIRA_DATABASE_URL=of_one(pair.standby)) as service:
            await asyncio.to_thread(service.until_it_answers)
            await until_it_is_named(service, "standby")
            await pair.crash()
            await pair.promote()
            await asyncio.to_thread(service.until_ready)
            assert await asyncio.to_thread(service.stop) == 0


async def test_uploads_do_not_collide_where_the_role_is_serializable_by_default(cloned: Cloned, tmp_path: Path) -> None:
    await alter(cloned, SERIALIZABLE)
    with serving(cloned, tmp_path) as service, service.client() as client, ThreadPoolExecutor(8) as threads:

        def upload(number: int) -> int:
            return client.post("/v1/documents", files={"file": ("a.txt", f"Text {number}".encode())}).status_code

        assert set(threads.map(upload, range(100))) == {202}
