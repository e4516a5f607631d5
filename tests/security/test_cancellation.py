"""Requests and jobs that are cancelled anywhere leave no clamp, no open transaction, and nobody else's rows."""

import asyncio
import os
import random
from collections import Counter
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from app.adapters.postgres.engine import administer
from tests.security.departing_clients import UNCLAMPED, DepartingClients, eventually
from tests.security.tenant_fixtures import in_process_service, new_app
from tests.support.databases import Cloned
from tests.support.pgbouncer import in_front_of

TENANTS, POOL = 20, 3
FEW, MANY = 400, 6_000

SEED = int(os.environ.get("CANCELLATION_SEED") or random.randrange(2**32))  # noqa: S311 - no secret
"""Told with a failure; the same again with the environment's."""

IN_TRANSACTION = """
select count(*) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in transaction%'
"""

STRAY = """
select (select count(*) from daira.pages where text not like '%' || tenant_id || '%')
     + (select count(*) from daira.jobs j join daira.documents d on d.id = j.document_id
        where d.tenant_id <> j.tenant_id)
     + (select count(*) from daira.documents where filename like 'mark%' and filename not like tenant_id || '%')
"""


async def come_and_go(cloned: Cloned, count: int, **settings: str) -> None:
    print(f"CANCELLATION_SEED={SEED}")  # noqa: T201 - shown with a failure
    async with in_process_service(cloned, new_app(), pool_size=POOL, **settings) as service:
        departing_clients = DepartingClients(service, seed=SEED)
        await departing_clients.move_in(TENANTS)
        with capture_logs() as logs:
            await departing_clients.come_and_go(count)
        engine, ended = departing_clients.engine, departing_clients.report.ended
        assert Counter(departing_clients.report.faults) == {}
        assert [line for line in logs if line["event"] == "request_failed"] == []
        assert min(ended[act] for act in ("_ask", "_upload", "_leave_amid_upload", "_work", "_look")) > count / 50, (
            ended
        )
        assert count / 5 < ended["cancelled"] < count, ended
        assert sum(ended.values()) == count

        async def all_back() -> bool:
            return engine.checked_out() == 0

        assert await eventually(all_back, within=timedelta(seconds=10))
        # All of the pool at once, so that none is missed.
        for rows in await asyncio.gather(*(engine.call(UNCLAMPED + ", pg_sleep(0.2)") for _ in range(POOL))):
            assert [(row["clamp"], row["rows"]) for row in rows] == [("", 0)]
        await nothing_is_left(cloned)


async def nothing_is_left(cloned: Cloned) -> None:
    async with administer(cloned.admin_url) as admin:

        async def none_waits() -> bool:
            return bool(await admin.fetchval(IN_TRANSACTION) == 0)

        assert await eventually(none_waits, within=timedelta(seconds=10))
        assert await admin.fetchval(STRAY) == 0


@pytest.mark.threat(14, 17)
@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "as-if-pooled"])
async def test_cancelled_requests_and_jobs_leave_nothing_behind(cloned: Cloned, *, pooled: bool) -> None:
    """Told that there is a pooler, single statements have transactions too; none needs to be there for that."""
    await come_and_go(cloned, FEW, **({"listen_url": cloned.app_url} if pooled else {}))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.threat(14, 17)
async def test_thousands_of_cancelled_requests_and_jobs_leave_nothing_behind(cloned: Cloned) -> None:
    await come_and_go(cloned, MANY)


@pytest.mark.pgbouncer
@pytest.mark.timeout(1200)
@pytest.mark.threat(17, 18)
async def test_nor_do_they_through_pgbouncer(cloned: Cloned) -> None:
    with in_front_of(cloned.app_url, size=POOL) as url:
        await come_and_go(cloned, MANY, database_url=url, listen_url=cloned.app_url)
