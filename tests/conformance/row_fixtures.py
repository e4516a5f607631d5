"""What a tenant has, one of everything, and each call that names some of it, for what is another's or nobody's."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from app.domain.documents import Document
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
    new_answer,
    new_document,
    new_job,
    new_key,
    new_page,
    new_webhook,
    release,
)


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
    "pages.some without words": lambda tx, ids: tx.pages.some(ids.document, after=0, limit=9, words=False),
    "pages.warnings": lambda tx, ids: tx.pages.warnings(ids.document),
    "pages.drafted": lambda tx, ids: tx.pages.drafted(ids.job),
    "pages.unreadable": lambda tx, ids: tx.pages.unreadable(ids.job),
    "pages.draft": lambda tx, ids: tx.pages.draft(ids.lease, [new_page(7)]),
    "answers.kept": lambda tx, ids: tx.answers.kept(ids.job),
    "answers.keep": lambda tx, ids: tx.answers.keep(ids.lease, new_answer()),
    "answers.forget": lambda tx, ids: tx.answers.forget(ids.job),
    "jobs.add": lambda tx, ids: tx.jobs.add(new_job(document_id=ids.document)),
    "jobs.get": lambda tx, ids: tx.jobs.get(ids.job),
    "jobs.newest": lambda tx, ids: tx.jobs.newest(document_ids=[ids.document]),
    "jobs.of_documents": lambda tx, ids: tx.jobs.of_documents([ids.document], each=9),
    "jobs.attempts": lambda tx, ids: tx.jobs.attempts(ids.job),
    "jobs.cancel": lambda tx, ids: tx.jobs.cancel(ids.job),
    "changes.states": lambda tx, ids: tx.changes.states({ids.job}),
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
class TenantRows:
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


async def tenant_rows(rig: Rig, name: str) -> TenantRows:
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
    return TenantRows(tenant=tenant, document=document, job=job, key=await rig.key(tenant), webhook=webhook)
