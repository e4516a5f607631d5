"""What notes that a job has changed, in the database: every change of its state, and nothing else."""

import asyncpg

from app.adapters.postgres.engine import Engine, administer
from app.domain.ids import TenantId
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import LEASE

HOT = """
select pg_stat_get_xact_tuples_updated('daira.jobs'::regclass) as all,
       pg_stat_get_xact_tuples_hot_updated('daira.jobs'::regclass) as hot
"""
BEAT = "select * from daira.beat($1, $2, $3, $4::text[]::jsonb[], $5)"


async def test_a_beat_with_progress_stays_heap_only_and_is_no_change(cloned: Cloned, engine: Engine) -> None:
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
