"""What looks for work reads the live jobs alone, however many are done."""

import pytest

from app.adapters.postgres.changes import LIVE, RUNNING
from app.adapters.postgres.engine import PostgresEngine, administer
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig

DONE = 20_000

FILL = """
insert into daira.jobs (tenant_id, id, kind, state, lease_until, ring_after, run_after)
select 'acme', gen_random_uuid(), 'ocr',
       case when n % 1000 = 0 then 'queued' when n % 1000 = 1 then 'claimed' else 'done' end,
       now() + interval '1 hour', now() - interval '1 minute', now() - interval '1 minute'
from generate_series(1, $1) n
"""

MORE_QUEUED = "update daira.jobs set state = 'queued' where state = 'done' and get_byte(uuid_send(id), 0) < 32"

SCANS = """
select pg_stat_get_xact_numscans('daira.jobs'::regclass) as walks,
       pg_stat_get_xact_numscans('daira.jobs_live'::regclass) as live,
       pg_stat_get_xact_numscans('daira.jobs_ring'::regclass) as ring,
       pg_stat_get_xact_numscans('daira.jobs_changed'::regclass) as changed,
       pg_stat_get_xact_numscans('daira.jobs_waiting'::regclass) as waiting
"""

LOOKS = {
    "select * from daira.tenants_with_due_work(500)": {"live", "ring"},
    "select * from daira.sweep(array['acme'], 5)": {"live", "ring"},
    "select * from daira.live_jobs('acme', 1000)": {"live"},
    "select * from daira.changes('acme', '3:3:', null, null, null, null, 100)": {"changed"},
}

PREPARED = {
    "live": (LIVE, "text, pg_snapshot, uuid, int", "'acme', '3:9000000000:', null, 1000"),
    "running": (RUNNING, "text, uuid[]", "'acme', null"),
}


@pytest.mark.parametrize("look", LOOKS)
async def test_a_look_for_work_walks_no_table(cloned: Cloned, engine: PostgresEngine, look: str) -> None:
    """A condition that the planner can't prove costs nothing in a small table, and everything in a large one."""
    await postgres_rig(cloned, engine).tenant("acme")
    async with administer(cloned.admin_url) as admin:
        await admin.execute(FILL, DONE)
        await admin.execute("vacuum analyze daira.jobs")
    async with administer(cloned.app_url) as app, app.transaction():
        await app.execute("select set_config('app.tenant_id', 'acme', true)")
        assert await app.fetch(look)
        scans = await app.fetchrow(SCANS)
    assert scans["walks"] == 0
    assert {name for name in ("live", "ring", "changed") if scans[name]} == LOOKS[look]


async def test_a_scrape_counts_what_is_queued_in_an_index_and_reads_what_is_claimed(
    cloned: Cloned, engine: PostgresEngine
) -> None:
    await postgres_rig(cloned, engine).tenant("acme")
    async with administer(cloned.admin_url) as admin:
        await admin.execute(FILL, DONE)
        await admin.execute(MORE_QUEUED)
        await admin.execute("vacuum analyze daira.jobs")
    async with administer(cloned.app_url) as app, app.transaction():
        assert await app.fetch("select * from daira.backlog()")
        scans = await app.fetchrow(SCANS)
    assert {name for name, count in scans.items() if count} == {"live", "waiting"}


@pytest.mark.parametrize("look", PREPARED)
@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
async def test_a_look_of_a_stream_walks_no_table(cloned: Cloned, engine: PostgresEngine, look: str, mode: str) -> None:
    """Prepared, as the driver does it: a plan that is made for any values must do as well."""
    await postgres_rig(cloned, engine).tenant("acme")
    async with administer(cloned.admin_url) as admin:
        await admin.execute(FILL, DONE)
        await admin.execute("update daira.jobs set progress = '{}' where state = 'claimed'")
        await admin.execute("vacuum analyze daira.jobs")
    statement, types, values = PREPARED[look]
    async with administer(cloned.app_url) as app, app.transaction():
        await app.execute("select set_config('app.tenant_id', 'acme', true)")
        await app.execute(f"set local plan_cache_mode = {mode}")
        await app.execute(f"prepare look({types}) as {statement}")
        assert await app.fetch(f"execute look({values})")
        scans = await app.fetchrow(SCANS)
    assert (scans["walks"], scans["live"] > 0) == (0, True)
