"""The `webhook` job: one event, sent to one webhook, with the same id and bytes however often it is tried."""

import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from app.domain.documents import Document
from app.domain.ids import JobId, WebhookId
from app.domain.jobs import Job, JobError
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Fail, Outcome, Retry, Snooze
from app.domain.webhooks import JITTER, KIND, LONGEST_WAIT, WAITS, Webhook, in_zulu, signature
from app.handlers.webhook_slots import EndpointBusy, EndpointSlots
from app.ports.database import Database, Tx
from app.ports.leases import Reporter
from app.ports.sender import Sender, WebhookResponse, WebhookUnanswered

LARGEST_METADATA = 8 * 1024
"""Bytes of a document's metadata that are sent along: a delivery is to stay below 20 kB."""


class WebhookPayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    webhook_id: UUID
    event: str
    job_id: UUID | None = None
    """None: a test."""
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutgoingEvent:
    """What there is to send, and where to."""

    webhook: Webhook
    delivery: Job
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookHandler:
    database: Database
    sender: Sender
    shares: EndpointSlots
    disabled: Callable[[], object] = lambda: None
    """A webhook was disabled just now."""
    waits: Sequence[timedelta] = WAITS
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    kind: str = KIND

    async def run(self, job: ClaimedJob, reporter: Reporter) -> Outcome:  # noqa: ARG002 - there are no steps to tell of
        payload = WebhookPayload.model_validate(job.payload)
        order = await self._order(job, payload)
        if isinstance(order, JobError):
            return Fail(order)
        try:
            with self.shares.place(tenant=job.lease.tenant_id, endpoint=order.webhook.id):
                answer = await self.sender.send(order.webhook.url, body=order.body, headers=self._headers(job, order))
        except EndpointBusy as busy:
            return Snooze(busy.after, JobError(code="busy", message=f"the receiver is busy: {busy}"))
        return await self._outcome(job, order, answer)

    async def _order(self, job: ClaimedJob, payload: WebhookPayload) -> _OutgoingEvent | JobError:
        """Whatever is gone meanwhile is nobody's business any more: nothing is sent."""
        webhook_id = WebhookId(payload.webhook_id)
        async with self.database.begin(job.lease.tenant_id) as tx:
            webhook = await tx.webhooks.get(webhook_id)
            delivery = await tx.jobs.get(job.lease.job_id)
            told = None if payload.job_id is None else await tx.jobs.get(JobId(payload.job_id))
            document = await tx.documents.get(told.document_id) if told and told.document_id else None
        if webhook is None:
            return JobError(code="webhook_gone", message="the webhook was deleted")
        if webhook.disabled_at is not None:
            return JobError(code="webhook_disabled", message=f"the webhook is disabled: {webhook.disabled_reason}")
        if delivery is None or (payload.job_id is not None and told is None):
            return JobError(code="job_gone", message="the job that it tells of was deleted")
        return _OutgoingEvent(webhook=webhook, delivery=delivery, body=_body(payload, delivery, document))

    def _headers(self, job: ClaimedJob, order: _OutgoingEvent) -> dict[str, str]:
        now = self.clock()
        message_id, timestamp = str(job.lease.job_id), int(now.timestamp())
        signed = [
            signature(secret, message_id=message_id, timestamp=timestamp, body=order.body)
            for secret in order.webhook.secrets_at(now)
        ]
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(signed),
        }

    async def _outcome(
        self, job: ClaimedJob, order: _OutgoingEvent, answer: WebhookResponse | WebhookUnanswered
    ) -> Outcome:
        if isinstance(answer, WebhookUnanswered):
            return await self._again(job, order, JobError(code=answer.code, message=answer.message))
        if answer.success:
            return Done(_noted(job, order.webhook, status=answer.status))
        reason = JobError(code=f"status_{answer.status}", message=f"the receiver answered with status {answer.status}")
        if answer.status == HTTPStatus.GONE:
            await self._disable(order, reason="the receiver answered 410 Gone")
            return Fail(reason)
        return await self._again(job, order, reason, after=answer.retry_after)

    async def _again(
        self, job: ClaimedJob, order: _OutgoingEvent, reason: JobError, *, after: timedelta | None = None
    ) -> Outcome:
        if job.failures + 1 >= job.max_attempts:
            await self._disable(
                order,
                reason=f"{job.max_attempts} tries of a delivery failed, and no other one succeeded meanwhile",
                unless_healthy_since=order.delivery.created_at,
            )
        wait = self.waits[min(job.failures, len(self.waits) - 1)] * (1 + JITTER * random.random())  # noqa: S311 - spreads
        if after is not None:
            wait = min(max(wait, after), LONGEST_WAIT * (1 + JITTER))
        return Retry(reason, after=wait)

    async def _disable(
        self, order: _OutgoingEvent, *, reason: str, unless_healthy_since: datetime | None = None
    ) -> None:
        webhook = order.webhook
        async with self.database.begin(webhook.tenant_id) as tx:
            disabled = await tx.webhooks.disable(webhook.id, reason=reason, unless_healthy_since=unless_healthy_since)
        if disabled:
            self.disabled()


def _body(payload: WebhookPayload, delivery: Job, document: Document | None) -> bytes:
    """As it was when the job ended, and sorted: the same bytes for every try."""
    data = dict(payload.data)
    if document is not None:
        data["metadata"] = _metadata(document)
    moment = data.get("finished_at") or in_zulu(delivery.created_at)
    return _json({"type": payload.event, "timestamp": moment, "data": data})


def _metadata(document: Document) -> Mapping[str, object] | None:
    """What the uploader has given the document to be known by; None where it is too much to be sent along."""
    return document.metadata if len(_json(document.metadata)) <= LARGEST_METADATA else None


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def _noted(job: ClaimedJob, webhook: Webhook, *, status: int) -> Callable[[Tx], Awaitable[None]]:
    async def apply(tx: Tx) -> None:
        await tx.jobs.save_result(job.lease.job_id, {"status": status})
        await tx.webhooks.note_health(webhook.id)

    return apply
