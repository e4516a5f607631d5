"""Webhooks and their deliveries, under the clamp."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Row, and_, case, delete, func, insert, literal, null, select, update
from sqlalchemy.dialects.postgresql import INTERVAL

from app.adapters.postgres.clamped import ClampedConnection, known_faults
from app.adapters.postgres.jobs import PostgresJobs
from app.adapters.postgres.stored import known_names
from app.adapters.postgres.tables import jobs, webhooks
from app.domain.ids import JobId, WebhookId
from app.domain.jobs import Job
from app.domain.webhooks import Event, Webhook

HEALTHY_AT_MOST_EVERY = timedelta(minutes=1)
"""The time between two updates of a webhook's health. Simultaneous deliveries would wait for one another to write
it."""


class PostgresWebhooks:
    def __init__(self, clamped: ClampedConnection) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def add(self, webhook: Webhook) -> None:
        if webhook.tenant_id != self._tenant_id:
            raise ValueError("this webhook is another tenant's")
        statement = insert(webhooks).values(
            tenant_id=self._tenant_id,
            id=webhook.id,
            url=webhook.url,
            events=sorted(webhook.events),
            description=webhook.description,
            secret=webhook.secret,
            created_at=webhook.created_at,
            healthy_at=webhook.healthy_at,
        )
        with known_faults():
            await self._clamped.execute(statement)

    async def get(self, webhook_id: WebhookId) -> Webhook | None:
        row = (await self._clamped.execute(select(webhooks).where(self._own(webhook_id)))).one_or_none()
        return _webhook(row) if row else None

    async def newest(self, *, limit: int, before: WebhookId | None = None) -> list[Webhook]:
        c = webhooks.c
        statement = select(webhooks).where(c.tenant_id == self._tenant_id).order_by(c.id.desc()).limit(limit)
        if before is not None:
            statement = statement.where(c.id < before)
        return [_webhook(row) for row in await self._clamped.execute(statement)]

    async def remove(self, webhook_id: WebhookId) -> bool:
        return (await self._clamped.execute(delete(webhooks).where(self._own(webhook_id)))).rowcount == 1

    async def rotate(self, webhook_id: WebhookId, *, secret: str, overlap: timedelta) -> Webhook | None:
        c = webhooks.c
        statement = (
            update(webhooks)
            .where(self._own(webhook_id))
            .values(
                secret=secret,
                previous_secret=c.secret if overlap else null(),
                previous_until=func.now() + literal(overlap, INTERVAL) if overlap else null(),
            )
            .returning(webhooks)
        )
        row = (await self._clamped.execute(statement)).one_or_none()
        return _webhook(row) if row else None

    async def enable(self, webhook_id: WebhookId) -> Webhook | None:
        c = webhooks.c
        statement = (
            update(webhooks)
            .where(self._own(webhook_id))
            .values(
                # The health of a webhook that is enabled already stays as it is.
                healthy_at=case((c.disabled_at.is_(None), c.healthy_at), else_=func.now()),
                disabled_at=null(),
                disabled_reason=null(),
            )
            .returning(webhooks)
        )
        row = (await self._clamped.execute(statement)).one_or_none()
        return _webhook(row) if row else None

    async def disable(
        self, webhook_id: WebhookId, *, reason: str, unless_healthy_since: datetime | None = None
    ) -> bool:
        c = webhooks.c
        statement = update(webhooks).where(self._own(webhook_id), c.disabled_at.is_(None))
        if unless_healthy_since is not None:
            statement = statement.where(c.healthy_at < unless_healthy_since)
        done = await self._clamped.execute(statement.values(disabled_at=func.now(), disabled_reason=reason))
        return done.rowcount == 1

    async def note_health(self, webhook_id: WebhookId) -> None:
        c = webhooks.c
        stale = c.healthy_at < func.now() - literal(HEALTHY_AT_MOST_EVERY, INTERVAL)
        await self._clamped.execute(update(webhooks).where(self._own(webhook_id), stale).values(healthy_at=func.now()))

    async def deliveries(self, webhook_id: WebhookId, *, limit: int, before: JobId | None = None) -> Sequence[Job]:
        return await PostgresJobs(self._clamped).select(
            jobs.c.document_id.is_(None),
            jobs.c.webhook_id == webhook_id,
            *([] if before is None else [jobs.c.id < before]),
            limit=limit,
        )

    def _own(self, webhook_id: WebhookId) -> ColumnElement[bool]:
        return and_(webhooks.c.tenant_id == self._tenant_id, webhooks.c.id == webhook_id)


def _webhook(row: Row[tuple[object, ...]]) -> Webhook:
    columns = row._asdict()
    return Webhook(**columns | {"events": frozenset(known_names(Event, columns["events"]))})
