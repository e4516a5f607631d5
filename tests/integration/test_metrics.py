"""What a running service tells to Prometheus: all that is promised, and all that alerts and charts ask for."""

from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.adapters.postgres.engine import PostgresEngine, administer
from app.adapters.postgres.sweeps import PostgresSweeps
from app.domain.errors import Unavailable
from tests.support.contract import CONTRACT, told_by
from tests.support.databases import Cloned
from tests.support.prometheus import alerts, charts, names_in
from tests.support.sample_documents import Sheet, pdf
from tests.support.service import ended, serving, upload

FORTY = """
insert into daira.jobs (tenant_id, id, kind) select 'acme', gen_random_uuid(), 'ocr' from generate_series(1, 40)
"""


async def test_every_metric_of_the_contract_is_there_and_every_one_that_is_asked_for(
    cloned: Cloned, folder: Path
) -> None:
    with serving(cloned, folder) as service, service.client() as client:
        for job in upload(client, pdf(Sheet(lines=("Dear Sir",))))["jobs"]:
            assert ended(client, job)["state"] == "done"
        told = told_by(service.url)
    assert {name: told.get(name) for name in CONTRACT} == CONTRACT
    asked = names_in(charts()) | names_in(rule["expr"] for rule in alerts().values())
    # What only a language model's answers make.
    assert asked - set(told) - {"daira_llm_seconds_bucket"} == set()


async def test_a_snapshot_that_is_held_shows_by_its_age(cloned: Cloned, engine: PostgresEngine) -> None:
    sweeps = PostgresSweeps(engine)
    async with administer(cloned.app_url) as other, other.transaction(isolation="repeatable_read"):
        await other.fetch("select 1")
        assert (await sweeps.wear()).oldest_snapshot > timedelta()


async def test_another_logins_transaction_shows_by_those_that_came_after_it(
    cloned: Cloned, engine: PostgresEngine
) -> None:
    """Its snapshot is not shown to us, and its number is."""
    sweeps = PostgresSweeps(engine)
    async with administer(cloned.admin_url) as other, other.transaction(), administer(cloned.admin_url) as busy:
        await other.fetch("select pg_current_xact_id()")
        for _ in range(50):
            await busy.fetch("select pg_current_xact_id()")
        assert (await sweeps.wear()).oldest_transactions >= 50


async def test_rows_that_vacuum_has_yet_to_remove_are_counted(cloned: Cloned, engine: PostgresEngine) -> None:
    async with administer(cloned.admin_url) as admin:
        await admin.execute("alter table daira.jobs set (autovacuum_enabled = off)")
        await admin.execute("insert into daira.tenants (tenant_id) values ('acme')")
        await admin.execute(FORTY)
        await admin.execute("update daira.jobs set rings = 1")
        await admin.execute("select pg_stat_force_next_flush()")
    wear = await PostgresSweeps(engine).wear()
    assert (wear.dead["jobs"], wear.live["jobs"]) == (40, 40)


async def test_a_database_that_accepts_nobody_is_away_and_no_fault_of_ours(
    cloned: Cloned, engine: PostgresEngine
) -> None:
    name = urlsplit(cloned.admin_url).path[1:]
    async with administer(cloned.admin_url, database="postgres") as admin:
        await admin.execute(f"alter database {name} allow_connections false")
        try:
            with pytest.raises(Unavailable, match="refuses"):
                await PostgresSweeps(engine).backlog()
        finally:
            await admin.execute(f"alter database {name} allow_connections true")
