"""`Database`: transactions, and the wall around each tenant."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from app.domain.documents import Document
from app.domain.errors import Invalid, NotFound
from app.domain.ids import DocumentId, JobId, KeyId, TenantId, WebhookId, uuid7
from app.domain.jobs import Job, JobState
from app.domain.keys import ApiKey
from app.domain.leases import Lease
from app.domain.tenants import TenantState
from app.domain.webhooks import Webhook
from app.ports.database import Tx
from tests.support.rig import (
    SECOND,
    Rig,
    done,
    fail,
    new_answer,
    new_document,
    new_job,
    new_key,
    new_page,
    new_webhook,
    release,
)


class Boom(Exception):
    """What goes wrong in the middle of a transaction."""


@dataclass(frozen=True, kw_only=True)
class Ids:
    """What to ask for: what another tenant has, or what nobody has."""

    document: DocumentId
    job: JobId
    key: KeyId
    sha256: str
    webhook: WebhookId
    tenant: TenantId

    @property
    def lease(self) -> Lease:
        return Lease(tenant_id=self.tenant, job_id=self.job, attempt=2)


Call = Callable[[Tx, Ids], Awaitable[object]]

CALLS: dict[str, Call] = {
    "keys.revoke": lambda tx, ids: tx.keys.revoke(ids.key),
    "keys.expire": lambda tx, ids: tx.keys.expire(ids.key, at=datetime.now(UTC)),
    "keys.touch": lambda tx, ids: tx.keys.touch(ids.key),
    "documents.get": lambda tx, ids: tx.documents.get(ids.document),
    "documents.with_bytes": lambda tx, ids: tx.documents.with_bytes(ids.sha256),
    "documents.set_read": lambda tx, ids: tx.documents.set_read(ids.document, page_count=7),
    "documents.remove": lambda tx, ids: tx.documents.remove(ids.document),
    "pages.replace": lambda tx, ids: tx.pages.replace(ids.document, [new_page()]),
    "pages.replace with none": lambda tx, ids: tx.pages.replace(ids.document, []),
    "pages.all": lambda tx, ids: tx.pages.all(ids.document),
    "pages.get": lambda tx, ids: tx.pages.get(ids.document, 1),
    "pages.some": lambda tx, ids: tx.pages.some(ids.document, after=0, limit=9),
    "pages.warnings": lambda tx, ids: tx.pages.warnings(ids.document),
    "pages.drafted": lambda tx, ids: tx.pages.drafted(ids.job),
    "pages.draft": lambda tx, ids: tx.pages.draft(ids.lease, [new_page(7)]),
    "answers.kept": lambda tx, ids: tx.answers.kept(ids.job),
    "answers.keep": lambda tx, ids: tx.answers.keep(ids.lease, new_answer()),
    "answers.forget": lambda tx, ids: tx.answers.forget(ids.job),
    "jobs.add": lambda tx, ids: tx.jobs.add(new_job(document_id=ids.document)),
    "jobs.get": lambda tx, ids: tx.jobs.get(ids.job),
    "jobs.newest": lambda tx, ids: tx.jobs.newest(document_ids=[ids.document]),
    "jobs.attempts": lambda tx, ids: tx.jobs.attempts(ids.job),
    "jobs.cancel": lambda tx, ids: tx.jobs.cancel(ids.job),
    "idempotency_keys.take": lambda tx, ids: tx.idempotency_keys.take(ids.sha256, b"another"),
    "idempotency_keys.release": lambda tx, ids: tx.idempotency_keys.release(ids.sha256),
    "jobs.settle": lambda tx, ids: tx.jobs.settle(done(ids.lease)),
    "jobs.retry": lambda tx, ids: tx.jobs.retry(ids.job, states=[*JobState]),
    "webhooks.get": lambda tx, ids: tx.webhooks.get(ids.webhook),
    "webhooks.remove": lambda tx, ids: tx.webhooks.remove(ids.webhook),
    "webhooks.rotate": lambda tx, ids: tx.webhooks.rotate(ids.webhook, secret="whsec_", overlap=SECOND),
    "webhooks.enable": lambda tx, ids: tx.webhooks.enable(ids.webhook),
    "webhooks.disable": lambda tx, ids: tx.webhooks.disable(ids.webhook, reason="a test"),
    "webhooks.note_health": lambda tx, ids: tx.webhooks.note_health(ids.webhook),
    "webhooks.deliveries": lambda tx, ids: tx.webhooks.deliveries(ids.webhook, limit=10),
}

READS_AND_WRITES: dict[str, Call] = CALLS | {
    "tenant.add": lambda tx, _: tx.tenant.add(),
    "tenant.get": lambda tx, _: tx.tenant.get(),
    "tenant.set_state": lambda tx, _: tx.tenant.set_state(TenantState.SUSPENDED),
    "tenant.lock": lambda tx, _: tx.tenant.lock(),
    "tenant.remove": lambda tx, _: tx.tenant.remove(),
    "keys.all": lambda tx, _: tx.keys.all(),
    "keys.add": lambda tx, ids: tx.keys.add(new_key(ids.tenant)),
    "documents.add": lambda tx, ids: tx.documents.add(new_document(ids.tenant)),
    "documents.newest": lambda tx, _: tx.documents.newest(limit=10),
    "jobs.live": lambda tx, _: tx.jobs.live(at_most=10),
    "jobs.prune": lambda tx, _: tx.jobs.prune(older_than=SECOND, limit=10),
    "webhooks.add": lambda tx, ids: tx.webhooks.add(new_webhook(ids.tenant)),
    "webhooks.newest": lambda tx, _: tx.webhooks.newest(limit=10),
    "idempotency_keys.remove_expired": lambda tx, _: tx.idempotency_keys.remove_expired(at_most=10),
}


@dataclass(frozen=True, kw_only=True)
class Furnished:
    """A tenant with one of everything."""

    tenant: TenantId
    document: Document
    job: Job
    key: ApiKey
    webhook: Webhook

    @property
    def ids(self) -> Ids:
        return Ids(
            document=self.document.id,
            job=self.job.id,
            key=self.key.id,
            sha256=self.document.sha256,
            webhook=self.webhook.id,
            tenant=self.tenant,
        )


def unknown(tenant: TenantId) -> Ids:
    return Ids(
        document=DocumentId(uuid7()),
        job=JobId(uuid7()),
        key=KeyId(uuid7()),
        sha256="0" * 64,
        webhook=WebhookId(uuid7()),
        tenant=tenant,
    )


async def furnished(rig: Rig, name: str) -> Furnished:
    """Its job is claimed for the second time."""
    tenant = await rig.tenant(name)
    document = await rig.document(tenant)
    job = await rig.enqueue(tenant, document_id=document.id)
    await rig.settle(release(await rig.lease(job)))
    await rig.lease(job)
    async with rig.database.begin(tenant) as tx:
        await tx.pages.replace(document.id, [new_page()])
        assert await tx.idempotency_keys.take(document.sha256, b"fingerprint") is None
        await tx.idempotency_keys.answer(document.sha256, resource_id=document.id, made=True, document_id=document.id)
    webhook = await rig.webhook(tenant)
    return Furnished(tenant=tenant, document=document, job=job, key=await rig.key(tenant), webhook=webhook)


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


async def change_everything_and_fail(rig: Rig, mine: Furnished) -> None:
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
    async def test_leaving_the_context_commits(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = new_document(tenant)
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.add(document) == document
            assert await tx.documents.get(document.id) == document
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.get(document.id) == document

    async def test_an_exception_rolls_back_everything(self, rig: Rig) -> None:
        acme = await furnished(rig, "acme")
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
        acme, bolt = await furnished(rig, "acme"), await furnished(rig, "bolt")
        for mine in (acme, bolt):
            async with rig.database.begin(mine.tenant) as tx:
                assert [tenant.id for tenant in [await tx.tenant.get()] if tenant] == [mine.tenant]
                assert [key.id for key in await tx.keys.all()] == [mine.key.id]
                assert [document.id for document in await tx.documents.newest(limit=10)] == [mine.document.id]
                assert [job.id for job in await tx.jobs.newest()] == [mine.job.id]

    @pytest.mark.threat(7)
    @pytest.mark.parametrize("name", CALLS)
    async def test_a_foreign_id_looks_like_an_unknown_one(self, rig: Rig, name: str) -> None:
        acme, bolt = await furnished(rig, "acme"), await furnished(rig, "bolt")
        before = await contents(rig, acme.tenant)
        foreign = await answer(rig, bolt.tenant, CALLS[name], acme.ids)
        assert foreign == await answer(rig, bolt.tenant, CALLS[name], unknown(bolt.tenant))
        assert await contents(rig, acme.tenant) == before

    async def test_the_lease_of_another_tenant_is_not_settled(self, rig: Rig) -> None:
        acme, bolt = await furnished(rig, "acme"), await furnished(rig, "bolt")
        before = await contents(rig, acme.tenant)
        async with rig.database.begin(bolt.tenant) as tx:
            assert not await tx.jobs.settle(fail(Lease(tenant_id=acme.tenant, job_id=acme.job.id, attempt=2)))
        assert await contents(rig, acme.tenant) == before

    async def test_a_settle_leaves_the_transaction_where_it_was(self, rig: Rig) -> None:
        acme, bolt = await furnished(rig, "acme"), await furnished(rig, "bolt")
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
        await furnished(rig, "acme")
        counts = await rig.tenantless_counts()
        assert counts.keys() >= {"tenants", "api_keys", "documents", "pages", "jobs", "job_attempts"}
        assert not any(counts.values())

    @pytest.mark.threat(15)
    @pytest.mark.parametrize("name", READS_AND_WRITES)
    async def test_a_transaction_that_is_over_refuses_to_work(self, rig: Rig, name: str) -> None:
        acme = await furnished(rig, "acme")
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
        acme, bolt = await furnished(rig, "acme"), await furnished(rig, "bolt")
        await rig.suspend(acme.tenant)
        others = await contents(rig, bolt.tenant)
        async with rig.database.begin(acme.tenant) as tx:
            assert await tx.tenant.remove()
            assert await tx.tenant.get() is None
        assert await contents(rig, acme.tenant) == (None, [], [], [], [], [], [])
        assert await contents(rig, bolt.tenant) == others
        assert await rig.sweeps.tenants(after=None, limit=10) == [bolt.tenant]

    async def test_a_tenant_that_is_not_suspended_is_not_removed(self, rig: Rig) -> None:
        acme = await furnished(rig, "acme")
        before = await contents(rig, acme.tenant)
        for name in (acme.tenant, TenantId("nobody")):
            async with rig.database.begin(name) as tx:
                assert not await tx.tenant.remove()
        assert await contents(rig, acme.tenant) == before

    async def test_a_removal_that_fails_has_removed_nothing(self, rig: Rig) -> None:
        acme = await furnished(rig, "acme")
        before = await contents(rig, acme.tenant)
        with pytest.raises(Boom):
            await remove_and_fail(rig, acme.tenant)
        assert await contents(rig, acme.tenant) == before

    async def test_who_works_for_a_removed_tenant_has_lost_the_lease(self, rig: Rig) -> None:
        acme = await furnished(rig, "acme")
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
