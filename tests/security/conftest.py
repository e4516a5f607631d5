"""What the tests of the wall start from: the application's own login, and two tenants with a row in every table."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.webhooks import Event
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import Rig, done, new_answer, new_page


@pytest.fixture
async def app(cloned: Cloned) -> AsyncIterator[asyncpg.Connection]:
    """A fresh connection with the application's rights."""
    async with administer(cloned.app_url) as connection:
        yield connection


@pytest.fixture
async def two_tenants(cloned: Cloned, engine: PostgresEngine) -> Rig:
    """Two tenants with a row in every table that the application can fill."""
    rig = postgres_rig(cloned, engine)
    for name in ("acme", "globex"):
        tenant = await rig.tenant(name)
        await rig.key(tenant)
        document = await rig.document(tenant)
        job = await rig.enqueue(tenant, document_id=document.id)
        lease = await rig.lease(job)
        async with rig.database.begin(tenant) as tx:
            assert await tx.pages.draft(lease, [new_page()])
            assert await tx.answers.keep(lease, new_answer())
        assert await rig.settle(done(lease))
        # Asked for what does not happen here: each tenant has one job.
        await rig.webhook(tenant, events=frozenset({Event.JOB_CANCELLED}))
        async with rig.database.begin(tenant) as tx:
            await tx.pages.replace(document.id, [new_page(text="Dear")])
            assert await tx.search.index(document.id)
        async with administer(cloned.admin_url) as admin:
            await admin.execute("insert into daira.results values ($1, $2, '{}')", tenant, job.id)
            await admin.execute(
                "insert into daira.idempotency_keys (tenant_id, key, fingerprint) values ($1, 'key', 'x')", tenant
            )
    return rig
