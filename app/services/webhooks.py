"""Adds, lists, rotates, enables, tests and removes a tenant's webhooks, and lists their deliveries."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from app.domain.doorbells import Ring
from app.domain.errors import Conflict, NotFound
from app.domain.ids import JobId, TenantId, WebhookId
from app.domain.jobs import Job
from app.domain.webhooks import KIND, MOST, TEST, DeliveryRecord, Event, Webhook, delivery_job, new_secret
from app.ports.database import Database, Tx
from app.ports.sender import WebhookSender
from app.services.ringing import Ringer
from app.tracing import current

NO_SUCH_WEBHOOK = "there is no such webhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookService:
    database: Database
    sender: WebhookSender
    ringing: Ringer

    async def add(self, tenant_id: TenantId, *, url: str, events: Collection[Event], description: str) -> Webhook:
        """Add a webhook. Raises Invalid for an address that is not allowed, Conflict at the limit of webhooks."""
        await self.sender.check(url)
        async with self.database.begin(tenant_id) as tx:
            webhook = Webhook(
                id=WebhookId(tx.new_id()),
                tenant_id=tenant_id,
                url=url,
                events=frozenset(events),
                description=description,
                secret=new_secret(),
                created_at=tx.now,
                healthy_at=tx.now,
            )
            await tx.tenant.lock()
            if len(await tx.webhooks.newest(limit=MOST)) == MOST:
                raise Conflict(f"a tenant has at most {MOST} webhooks; delete one that is no longer needed")
            await tx.webhooks.add(webhook)
        return webhook

    async def get(self, tenant_id: TenantId, webhook_id: WebhookId) -> Webhook:
        async with self.database.begin(tenant_id) as tx:
            return await _existing(tx, webhook_id)

    async def newest(self, tenant_id: TenantId, *, limit: int, before: WebhookId | None = None) -> list[Webhook]:
        async with self.database.begin(tenant_id) as tx:
            return await tx.webhooks.newest(limit=limit, before=before)

    async def remove(self, tenant_id: TenantId, webhook_id: WebhookId) -> None:
        async with self.database.begin(tenant_id) as tx:
            if not await tx.webhooks.remove(webhook_id):
                raise NotFound(NO_SUCH_WEBHOOK)

    async def rotate(self, tenant_id: TenantId, webhook_id: WebhookId, *, overlap: timedelta) -> Webhook:
        async with self.database.begin(tenant_id) as tx:
            webhook = await tx.webhooks.rotate(webhook_id, secret=new_secret(), overlap=overlap)
        return _found(webhook)

    async def enable(self, tenant_id: TenantId, webhook_id: WebhookId) -> Webhook:
        """Enable the webhook again. Raises Invalid if its address is no longer allowed."""
        webhook = await self.get(tenant_id, webhook_id)
        await self.sender.check(webhook.url)
        async with self.database.begin(tenant_id) as tx:
            enabled = await tx.webhooks.enable(webhook_id)
        return _found(enabled)

    async def test(self, tenant_id: TenantId, webhook_id: WebhookId) -> Job:
        """Send a test event. Raises Conflict while the webhook is disabled."""
        async with self.database.begin(tenant_id) as tx:
            webhook = await _existing(tx, webhook_id)
            if webhook.disabled_at is not None:
                raise Conflict(f"the webhook is disabled: {webhook.disabled_reason}; enable it first")
            data = {"webhook_id": str(webhook_id)}
            delivery = delivery_job(
                webhook_id, delivery_id=JobId(tx.new_id()), event=TEST, data=data, traceparent=current.get()
            )
            job = await tx.jobs.add(delivery)
        assert job is not None
        await self.ringing.ring([(KIND, Ring(tenant_id, job.id))])
        return job

    async def deliveries(
        self, tenant_id: TenantId, webhook_id: WebhookId, *, limit: int, before: JobId | None = None
    ) -> list[DeliveryRecord]:
        """Return the webhook's deliveries, newest first."""
        async with self.database.begin(tenant_id) as tx:
            await _existing(tx, webhook_id)
            jobs = await tx.webhooks.deliveries(webhook_id, limit=limit, before=before)
            return [DeliveryRecord(job=job, attempts=await tx.jobs.attempts(job.id)) for job in jobs]


async def _existing(tx: Tx, webhook_id: WebhookId) -> Webhook:
    return _found(await tx.webhooks.get(webhook_id))


def _found(webhook: Webhook | None) -> Webhook:
    if webhook is None:
        raise NotFound(NO_SUCH_WEBHOOK)
    return webhook
