"""`Database`: transactions, and the wall around each tenant."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app.domain.errors import Invalid, NotFound
from app.domain.ids import DocumentId, TenantId
from app.domain.leases import Lease
from app.domain.tenants import TenantState
from app.ports.database import Tx
from tests.conformance.row_fixtures import CALLS, READS_AND_WRITES, Call, Ids, TenantRows, tenant_rows, unknown
from tests.support.rig import (
    Rig,
    done,
    fail,
    new_document,
    new_job,
    new_key,
)


async def ids_of(rig: Rig, tenant: TenantId) -> list[UUID]:
    async with rig.database.begin(tenant) as tx:
        return [tx.new_id() for _ in range(50)]


class Boom(Exception):
    """What goes wrong in the middle of a transaction."""


async def contents(rig: Rig, tenant: TenantId) -> tuple[object, ...]:
    """Everything that a tenant can see."""
    async with rig.database.begin(tenant) as tx:
        documents = await tx.documents.newest(limit=100)
        jobs = await tx.jobs.newest()
        return (
            await tx.tenant.get(),
            await tx.keys.all(),
            documents,
            [await tx.pages.all(document.id) for document in documents],
            jobs,
            [await tx.jobs.attempts(job.id) for job in jobs],
            await tx.webhooks.newest(limit=100),
        )


async def answer(rig: Rig, tenant: TenantId, call: Call, ids: Ids) -> object:
    """What a call returns, or the class of what it raises."""
    try:
        async with rig.database.begin(tenant) as tx:
            return await call(tx, ids)
    except NotFound:
        return NotFound


async def change_everything_and_fail(rig: Rig, mine: TenantRows) -> None:
    async with rig.database.begin(mine.tenant) as tx:
        await tx.tenant.set_state(TenantState.SUSPENDED)
        await tx.keys.revoke(mine.key.id)
        await tx.documents.add(new_document(mine.tenant))
        await tx.pages.replace(mine.document.id, [])
        await tx.jobs.add(new_job())
        assert await tx.webhooks.disable(mine.webhook.id, reason="a test")
        assert await tx.jobs.settle(done(Lease(tenant_id=mine.tenant, job_id=mine.job.id, attempt=2)))
        assert await tx.documents.remove(mine.document.id)
        raise Boom


async def remove_and_fail(rig: Rig, tenant: TenantId) -> None:
    async with rig.database.begin(tenant) as tx:
        await tx.tenant.set_state(TenantState.SUSPENDED)
        assert await tx.tenant.remove()
        raise Boom


class DatabaseSuite:
    async def test_a_transactions_time_is_the_stores_and_the_time_of_what_it_makes(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        async with rig.database.begin(tenant) as tx:
            job = await tx.jobs.add(new_job())
            assert job is not None
            assert job.created_at == tx.now
            assert abs(tx.now - datetime.now(UTC)) < timedelta(minutes=1)
            first = tx.now
        async with rig.database.begin(tenant) as later:
            assert later.now >= first

    async def test_ids_have_the_time_of_their_transaction_and_keep_their_order(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        made = [identity for _ in range(3) for identity in await ids_of(rig, tenant)]
        assert made == sorted(set(made))
        assert {identity.version for identity in made} == {7}
        async with rig.database.begin(tenant) as tx:
            milliseconds = int(tx.now.timestamp() * 1000)
            assert abs((tx.new_id().int >> 80) - milliseconds) <= 1

    async def test_leaving_the_context_commits(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = new_document(tenant)
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.add(document) == document
            assert await tx.documents.get(document.id) == document
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.get(document.id) == document

    async def test_an_exception_rolls_back_everything(self, rig: Rig) -> None:
        acme = await tenant_rows(rig, "acme")
        before = await contents(rig, acme.tenant)
        with pytest.raises(Boom):
            await change_everything_and_fail(rig, acme)
        assert await contents(rig, acme.tenant) == before

    @pytest.mark.threat(17)
    async def test_a_cancelled_transaction_rolls_back(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document, written = new_document(tenant), asyncio.Event()

        async def write() -> None:
            async with rig.database.begin(tenant) as tx:
                await tx.documents.add(document)
                written.set()
                await asyncio.Event().wait()

        async with asyncio.timeout(10):
            writer = asyncio.create_task(write())
            await written.wait()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            async with rig.database.begin(tenant) as tx:
                assert await tx.documents.get(document.id) is None
                assert await tx.documents.add(document) == document

    async def test_others_see_nothing_before_the_commit(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document, job = new_document(tenant), new_job()
        async with asyncio.timeout(10), rig.database.begin(tenant) as tx:
            await tx.documents.add(document)
            await tx.jobs.add(job)
            async with rig.database.begin(tenant) as other:
                assert await other.documents.newest(limit=10) == []
                assert await other.jobs.get(job.id) is None
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.newest(limit=10) == [document]

    async def test_writers_at_the_same_time_lose_nothing(self, rig: Rig) -> None:
        tenant = await rig.tenant()

        async def write() -> DocumentId:
            document = new_document(tenant)
            async with rig.database.begin(tenant) as tx:
                await tx.documents.add(document)
                await asyncio.sleep(0)  # lets the others begin
            return document.id

        written = await asyncio.gather(*(write() for _ in range(6)))
        async with rig.database.begin(tenant) as tx:
            found = await tx.documents.newest(limit=100)
        assert {document.id for document in found} == set(written)

    @pytest.mark.threat(15, 74)
    @pytest.mark.parametrize("name", ["", "A", "acme corp", "acme/bolt", "../acme", "-acme", "acme\n", "a" * 64, "é"])
    async def test_a_malformed_tenant_is_refused(self, rig: Rig, name: str) -> None:
        with pytest.raises(Invalid):
            async with rig.database.begin(TenantId(name)):
                pass

    @pytest.mark.threat(7)
    async def test_a_tenant_sees_its_own_rows_alone(self, rig: Rig) -> None:
        acme, bolt = await tenant_rows(rig, "acme"), await tenant_rows(rig, "bolt")
        for mine in (acme, bolt):
            async with rig.database.begin(mine.tenant) as tx:
                assert [tenant.id for tenant in [await tx.tenant.get()] if tenant] == [mine.tenant]
                assert [key.id for key in await tx.keys.all()] == [mine.key.id]
                assert [document.id for document in await tx.documents.newest(limit=10)] == [mine.document.id]
                assert [job.id for job in await tx.jobs.newest()] == [mine.job.id]

    @pytest.mark.threat(7)
    @pytest.mark.parametrize("name", CALLS)
    async def test_a_foreign_id_looks_like_an_unknown_one(self, rig: Rig, name: str) -> None:
        acme, bolt = await tenant_rows(rig, "acme"), await tenant_rows(rig, "bolt")
        before = await contents(rig, acme.tenant)
        foreign = await answer(rig, bolt.tenant, CALLS[name], acme.ids)
        assert foreign == await answer(rig, bolt.tenant, CALLS[name], unknown(bolt.tenant))
        assert await contents(rig, acme.tenant) == before

    async def test_the_lease_of_another_tenant_is_not_settled(self, rig: Rig) -> None:
        acme, bolt = await tenant_rows(rig, "acme"), await tenant_rows(rig, "bolt")
        before = await contents(rig, acme.tenant)
        async with rig.database.begin(bolt.tenant) as tx:
            assert not await tx.jobs.settle(fail(Lease(tenant_id=acme.tenant, job_id=acme.job.id, attempt=2)))
        assert await contents(rig, acme.tenant) == before

    async def test_a_settle_leaves_the_transaction_where_it_was(self, rig: Rig) -> None:
        acme, bolt = await tenant_rows(rig, "acme"), await tenant_rows(rig, "bolt")
        async with rig.database.begin(bolt.tenant) as tx:
            await tx.jobs.settle(fail(Lease(tenant_id=acme.tenant, job_id=acme.job.id, attempt=2)))
            assert await tx.documents.get(acme.document.id) is None
            assert await tx.documents.get(bolt.document.id) is not None

    @pytest.mark.threat(5)
    async def test_a_row_of_another_tenant_is_not_written(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        document, key = new_document(acme), new_key(acme)
        with suppress(Exception):
            async with rig.database.begin(bolt) as tx:
                await tx.documents.add(document)
        with suppress(Exception):
            async with rig.database.begin(bolt) as tx:
                await tx.keys.add(key)
        async with rig.database.begin(acme) as tx:
            assert await tx.documents.get(document.id) is None
            assert await tx.keys.all() == []

    @pytest.mark.threat(8)
    async def test_the_same_id_under_two_tenants_is_two_rows(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        document = await rig.document(acme)
        job = await rig.enqueue(acme)
        assert (await rig.document(bolt, id=document.id, sha256=document.sha256)).tenant_id == bolt
        await rig.lease(await rig.enqueue(bolt, id=job.id))
        assert (await rig.again(job)).attempts == 0
        assert await rig.remove(document)
        async with rig.database.begin(bolt) as tx:
            assert await tx.documents.get(document.id) is not None

    @pytest.mark.threat(1, 2)
    async def test_without_a_tenant_no_row_is_visible(self, rig: Rig) -> None:
        await tenant_rows(rig, "acme")
        counts = await rig.tenantless_counts()
        assert counts.keys() >= {"tenants", "api_keys", "documents", "pages", "jobs", "job_attempts"}
        assert not any(counts.values())

    @pytest.mark.threat(15)
    @pytest.mark.parametrize("name", READS_AND_WRITES)
    async def test_a_transaction_that_is_over_refuses_to_work(self, rig: Rig, name: str) -> None:
        acme = await tenant_rows(rig, "acme")
        before = await contents(rig, acme.tenant)
        async with rig.database.begin(acme.tenant) as tx:
            pass
        with pytest.raises(RuntimeError):
            await READS_AND_WRITES[name](tx, acme.ids)
        assert await contents(rig, acme.tenant) == before

    async def test_a_transaction_that_failed_refuses_to_work(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        with pytest.raises(Boom):
            async with rig.database.begin(tenant) as tx:
                raise Boom
        with pytest.raises(RuntimeError):
            await tx.documents.add(new_document(tenant))

    async def test_a_tenant_is_registered_once(self, rig: Rig) -> None:
        async with rig.database.begin(TenantId("acme")) as tx:
            assert await tx.tenant.get() is None
            assert await tx.tenant.add()
        async with rig.database.begin(TenantId("acme")) as tx:
            assert not await tx.tenant.add()
            tenant = await tx.tenant.get()
        assert tenant is not None
        assert (tenant.id, tenant.state) == ("acme", TenantState.ACTIVE)

    async def test_a_tenant_is_suspended_and_resumed(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        for state in (TenantState.SUSPENDED, TenantState.ACTIVE):
            async with rig.database.begin(tenant) as tx:
                assert await tx.tenant.set_state(state)
            async with rig.database.begin(tenant) as tx:
                found = await tx.tenant.get()
            assert found is not None
            assert found.state is state

    async def test_the_state_of_an_unknown_tenant_can_not_be_set(self, rig: Rig) -> None:
        async with rig.database.begin(TenantId("acme")) as tx:
            assert not await tx.tenant.set_state(TenantState.SUSPENDED)

    async def test_a_suspended_tenant_is_removed_with_all_that_it_has_and_no_other(self, rig: Rig) -> None:
        acme, bolt = await tenant_rows(rig, "acme"), await tenant_rows(rig, "bolt")
        await rig.suspend(acme.tenant)
        others = await contents(rig, bolt.tenant)
        async with rig.database.begin(acme.tenant) as tx:
            assert await tx.tenant.remove()
            assert await tx.tenant.get() is None
        assert await contents(rig, acme.tenant) == (None, [], [], [], [], [], [])
        assert await contents(rig, bolt.tenant) == others
        assert await rig.sweeps.tenants(after=None, limit=10) == [bolt.tenant]

    async def test_a_tenant_that_is_not_suspended_is_not_removed(self, rig: Rig) -> None:
        acme = await tenant_rows(rig, "acme")
        before = await contents(rig, acme.tenant)
        for name in (acme.tenant, TenantId("nobody")):
            async with rig.database.begin(name) as tx:
                assert not await tx.tenant.remove()
        assert await contents(rig, acme.tenant) == before

    async def test_a_removal_that_fails_has_removed_nothing(self, rig: Rig) -> None:
        acme = await tenant_rows(rig, "acme")
        before = await contents(rig, acme.tenant)
        with pytest.raises(Boom):
            await remove_and_fail(rig, acme.tenant)
        assert await contents(rig, acme.tenant) == before

    async def test_who_works_for_a_removed_tenant_has_lost_the_lease(self, rig: Rig) -> None:
        acme = await tenant_rows(rig, "acme")
        async with rig.database.begin(acme.tenant) as tx:
            await tx.tenant.set_state(TenantState.SUSPENDED)
            assert await tx.tenant.remove()
        assert not (await rig.beat(acme.ids.lease)).held
        assert not await rig.settle(done(acme.ids.lease))
        assert await rig.tenant("acme") == acme.tenant
        assert not await rig.settle(done(acme.ids.lease))

    @pytest.mark.parametrize("name", ["documents.add", "keys.add", "jobs.add", "idempotency_keys.take"])
    async def test_nothing_is_added_under_an_unregistered_tenant(self, rig: Rig, name: str) -> None:
        adds: dict[str, Callable[[Tx], Awaitable[object]]] = {
            "documents.add": lambda tx: tx.documents.add(new_document(TenantId("acme"))),
            "keys.add": lambda tx: tx.keys.add(new_key(TenantId("acme"))),
            "jobs.add": lambda tx: tx.jobs.add(new_job()),
            "idempotency_keys.take": lambda tx: tx.idempotency_keys.take("a key", b"fingerprint"),
        }
        with pytest.raises(NotFound):
            async with rig.database.begin(TenantId("acme")) as tx:
                await adds[name](tx)
