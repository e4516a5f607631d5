"""Webhooks in the memory store."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from app.adapters.memory import transitions
from app.adapters.memory.store import Session
from app.domain.errors import Conflict
from app.domain.ids import JobId, WebhookId
from app.domain.jobs import Job
from app.domain.text import scrub
from app.domain.webhooks import KIND, Webhook


class MemoryWebhooks:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, webhook: Webhook) -> None:
        self._session.check_owner(webhook.tenant_id)
        tables = await self._session.writing()
        tables.require_tenant()
        if webhook.id in tables.webhooks:
            raise Conflict(f"webhook {webhook.id} exists already")
        tables.webhooks[webhook.id] = replace(webhook, url=scrub(webhook.url), description=scrub(webhook.description))

    async def get(self, webhook_id: WebhookId) -> Webhook | None:
        return self._session.reading().webhooks.get(webhook_id)

    async def newest(self, *, limit: int, before: WebhookId | None = None) -> list[Webhook]:
        found = [
            webhook for webhook in self._session.reading().webhooks.values() if before is None or webhook.id < before
        ]
        return sorted(found, key=lambda webhook: webhook.id, reverse=True)[:limit]

    async def remove(self, webhook_id: WebhookId) -> bool:
        return (await self._session.writing()).webhooks.pop(webhook_id, None) is not None

    async def rotate(self, webhook_id: WebhookId, *, secret: str, overlap: timedelta) -> Webhook | None:
        before = await self.get(webhook_id)
        return await self._change(
            webhook_id,
            secret=secret,
            previous_secret=before.secret if before and overlap else None,
            previous_until=self._session.now() + overlap if overlap else None,
        )

    async def enable(self, webhook_id: WebhookId) -> Webhook | None:
        before = await self.get(webhook_id)
        if before is None or before.disabled_at is None:
            return before
        return await self._change(webhook_id, disabled_at=None, disabled_reason=None, healthy_at=self._session.now())

    async def disable(
        self, webhook_id: WebhookId, *, reason: str, unless_healthy_since: datetime | None = None
    ) -> bool:
        before = await self.get(webhook_id)
        if before is None or before.disabled_at is not None:
            return False
        if unless_healthy_since is not None and before.healthy_at >= unless_healthy_since:
            return False
        await self._change(webhook_id, disabled_at=self._session.now(), disabled_reason=scrub(reason))
        return True

    async def note_health(self, webhook_id: WebhookId) -> None:
        await self._change(webhook_id, healthy_at=self._session.now())

    async def deliveries(self, webhook_id: WebhookId, *, limit: int, before: JobId | None = None) -> Sequence[Job]:
        found = [
            transitions.copied(row.job)
            for row in self._session.reading().jobs.values()
            if row.job.kind == KIND
            and row.job.payload.get("webhook_id") == str(webhook_id)
            and (before is None or row.job.id < before)
        ]
        return sorted(found, key=lambda job: job.id, reverse=True)[:limit]

    async def _change(self, webhook_id: WebhookId, **values: object) -> Webhook | None:
        webhooks = (await self._session.writing()).webhooks
        if webhook_id not in webhooks:
            return None
        webhooks[webhook_id] = replace(webhooks[webhook_id], **values)  # type: ignore[arg-type]
        return webhooks[webhook_id]
