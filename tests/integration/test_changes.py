"""What notes that a job has changed, in the database: every change of its state, and nothing else."""

import asyncpg

from app.adapters.postgres.changes import position_of, snapshot_of
from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.changes import ChangeWindow, Position
from app.domain.ids import TenantId
from app.domain.jobs import JobState
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import LEASE, done

HOT = """
select pg_stat_get_xact_tuples_updated('daira.jobs'::regclass) as all,
       pg_stat_get_xact_tuples_hot_updated('daira.jobs'::regclass) as hot
"""
BEAT = "select * from daira.beat($1, $2, $3, $4::text[]::jsonb[], $5)"


async def test_a_beat_with_progress_stays_heap_only_and_is_no_change(cloned: Cloned, engine: PostgresEngine) -> None:
    rig = postgres_rig(cloned, engine)
    tenant = await rig.tenant()
    lease = await rig.lease(await rig.enqueue(tenant))
    async with administer(cloned.app_url) as app, app.transaction():
        before = await _changed(app, tenant)
        for done in range(3):
            progress = f'{{"done": {done}, "total": 3, "unit": "page"}}'
            assert await app.fetch(BEAT, [tenant], [lease.job_id], [lease.attempt], [progress], LEASE)
        assert tuple(await app.fetchrow(HOT)) == (3, 3)
        assert await _changed(app, tenant) == before


async def _changed(app: asyncpg.Connection, tenant: TenantId) -> list[int]:
    await app.execute("select set_config('app.tenant_id', $1, true)", tenant)
    return [row["changed"] for row in await app.fetch("select changed from daira.jobs order by id")]


async def test_numbers_of_another_server_tell_nothing_and_hide_nothing(cloned: Cloned, engine: PostgresEngine) -> None:
    """A restored dump brings them along, from beyond what this server has come to."""
    rig = postgres_rig(cloned, engine)
    tenant = await rig.tenant()
    live, ended = await rig.enqueue(tenant), await rig.enqueue(tenant)
    await rig.settle(done(await rig.lease(ended)))
    async with administer(cloned.admin_url) as admin:
        await admin.execute("update daira.jobs set changed = '999999999999'")
    async with rig.database.begin(tenant) as tx:
        before = await tx.changes.now()
        page = await tx.changes.standing(upto=before, limit=10)
        assert [job.id for job in page.jobs] == [live.id]
        first = await tx.changes.within(ChangeWindow(since=Position("3.0.")), limit=10)
    assert first is not None
    assert first.jobs == []
    await rig.lease(live)
    async with rig.database.begin(tenant) as tx:
        news = await tx.changes.within(ChangeWindow(since=before), limit=10)
    assert news is not None
    assert [(job.id, job.state) for job in news.jobs] == [(live.id, JobState.CLAIMED)]


async def test_jobs_of_before_the_migration_stand_and_are_told_from_their_next_change_on(
    cloned: Cloned, engine: PostgresEngine
) -> None:
    rig = postgres_rig(cloned, engine)
    tenant = await rig.tenant()
    job = await rig.enqueue(tenant)
    async with administer(cloned.admin_url) as admin:
        await admin.execute("update daira.jobs set changed = null")
    async with rig.database.begin(tenant) as tx:
        before = await tx.changes.now()
        assert [each.id for each in (await tx.changes.standing(upto=before, limit=10)).jobs] == [job.id]
    await rig.cancel(job)
    async with rig.database.begin(tenant) as tx:
        news = await tx.changes.within(ChangeWindow(since=before), limit=10)
    assert news is not None
    assert [each.state for each in news.jobs] == [JobState.CANCELLED]


async def test_a_restored_copy_knows_no_position_of_a_server_that_had_come_farther(
    cloned: Cloned, engine: PostgresEngine
) -> None:
    rig = postgres_rig(cloned, engine)
    tenant = await rig.tenant()
    async with rig.database.begin(tenant) as tx:
        xmin, xmax, running = snapshot_of(await tx.changes.now()) or (0, 0, ())
        ahead = position_of((xmin, xmax + 1_000_000, running))
        assert await tx.changes.within(ChangeWindow(since=ahead), limit=10) is None


async def test_rows_from_a_server_that_had_come_farther_stand_and_hide_no_new_change(
    cloned: Cloned, engine: PostgresEngine
) -> None:
    """As after a dump and a restore: the rows name transactions that this server has yet to reach."""
    rig = postgres_rig(cloned, engine)
    tenant = await rig.tenant()
    old = await rig.enqueue(tenant)
    async with administer(cloned.admin_url) as admin:
        await admin.execute("update daira.jobs set changed = '99999999999'")
    async with rig.database.begin(tenant) as tx:
        before = await tx.changes.now()
    new = await rig.enqueue(tenant)
    async with rig.database.begin(tenant) as tx:
        page = await tx.changes.within(ChangeWindow(since=before), limit=10)
        standing = await tx.changes.standing(upto=await tx.changes.now(), limit=10)
    assert page is not None
    assert [job.id for job in page.jobs] == [new.id]
    assert sorted(job.id for job in standing.jobs) == sorted([old.id, new.id])
    await rig.claimed(old)
    async with rig.database.begin(tenant) as tx:
        later = await tx.changes.within(ChangeWindow(since=page.upto), limit=10)
    assert later is not None
    assert [job.id for job in later.jobs] == [old.id]
