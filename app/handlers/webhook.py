"""The `webhook` job: sends one event to one webhook, with the same id and bytes at every try."""

import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from app.domain.documents import Document
from app.domain.ids import JobId, WebhookId
from app.domain.jobs import Job, JobError
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Fail, Outcome, Retry, Snooze
from app.domain.webhooks import JITTER, KIND, LONGEST_WAIT, WAITS, Webhook, signature, utc_timestamp
from app.handlers.webhook_slots import EndpointBusy, EndpointSlots
from app.ports.database import Database, Tx
from app.ports.leases import ProgressReporter
from app.ports.sender import WebhookResponse, WebhookSender, WebhookUnanswered

LARGEST_METADATA = 8 * 1024
"""Bytes of a document's metadata that are sent along. A delivery must stay below 20 kB."""


class WebhookPayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    webhook_id: UUID
    event: str
    job_id: UUID | None = None
    """None for a test event."""
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutgoingEvent:
    """An event to send, with its webhook."""

    webhook: Webhook
    delivery: Job
    body: bytes
    now: datetime
    """The time of the signature, by the database's clock. Receivers refuse one that is minutes off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookHandler:
    database: Database
    sender: WebhookSender
    shares: EndpointSlots
    disabled: Callable[[], object] = lambda: None
    """Called after a webhook was disabled."""
    waits: Sequence[timedelta] = WAITS
    kind: str = KIND

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:  # noqa: ARG002 - there are no steps to report
        payload = WebhookPayload.model_validate(job.payload)
        event = await self._event(job, payload)
        if isinstance(event, JobError):
            return Fail(event)
        try:
            with self.shares.place(tenant=job.lease.tenant_id, endpoint=event.webhook.id):
                answer = await self.sender.send(event.webhook.url, body=event.body, headers=self._headers(job, event))
        except EndpointBusy as busy:
            return Snooze(busy.after, JobError(code="busy", message=f"the receiver is busy: {busy}"))
        return await self._outcome(job, event, answer)

    async def _event(self, job: ClaimedJob, payload: WebhookPayload) -> _OutgoingEvent | JobError:
        """Return the event to send, or an error where the webhook or the announced job is gone or disabled."""
        webhook_id = WebhookId(payload.webhook_id)
        async with self.database.begin(job.lease.tenant_id) as tx:
            webhook = await tx.webhooks.get(webhook_id)
            delivery = await tx.jobs.get(job.lease.job_id)
            announced = None if payload.job_id is None else await tx.jobs.get(JobId(payload.job_id))
            document = await tx.documents.get(announced.document_id) if announced and announced.document_id else None
        if webhook is None:
            return JobError(code="webhook_gone", message="the webhook was deleted")
        if webhook.disabled_at is not None:
            return JobError(code="webhook_disabled", message=f"the webhook is disabled: {webhook.disabled_reason}")
        if delivery is None or (payload.job_id is not None and announced is None):
            return JobError(code="job_gone", message="the job that it announces was deleted")
        return _OutgoingEvent(webhook=webhook, delivery=delivery, body=_body(payload, delivery, document), now=tx.now)

    def _headers(self, job: ClaimedJob, event: _OutgoingEvent) -> dict[str, str]:
        message_id, timestamp = str(job.lease.job_id), int(event.now.timestamp())
        signed = [
            signature(secret, message_id=message_id, timestamp=timestamp, body=event.body)
            for secret in event.webhook.secrets_at(event.now)
        ]
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(signed),
        }

    async def _outcome(
        self, job: ClaimedJob, event: _OutgoingEvent, answer: WebhookResponse | WebhookUnanswered
    ) -> Outcome:
        if isinstance(answer, WebhookUnanswered):
            return await self._again(job, event, JobError(code=answer.code, message=answer.message))
        if answer.success:
            return Done(_record_answer(job, event.webhook, status=answer.status))
        reason = JobError(code=f"status_{answer.status}", message=f"the receiver answered with status {answer.status}")
        if answer.status == HTTPStatus.GONE:
            await self._disable(event, reason="the receiver answered 410 Gone")
            return Fail(reason)
        return await self._again(job, event, reason, after=answer.retry_after)

    async def _again(
        self, job: ClaimedJob, event: _OutgoingEvent, reason: JobError, *, after: timedelta | None = None
    ) -> Outcome:
        if job.failures + 1 >= job.max_attempts:
            await self._disable(
                event,
                reason=f"{job.max_attempts} tries of a delivery failed, and no other one succeeded meanwhile",
                unless_healthy_since=event.delivery.created_at,
            )
        wait = self.waits[min(job.failures, len(self.waits) - 1)] * (1 + JITTER * random.random())  # noqa: S311 - spreads
        if after is not None:
            wait = min(max(wait, after), LONGEST_WAIT * (1 + JITTER))
        return Retry(reason, after=wait)

    async def _disable(
        self, event: _OutgoingEvent, *, reason: str, unless_healthy_since: datetime | None = None
    ) -> None:
        webhook = event.webhook
        async with self.database.begin(webhook.tenant_id) as tx:
            disabled = await tx.webhooks.disable(webhook.id, reason=reason, unless_healthy_since=unless_healthy_since)
        if disabled:
            self.disabled()


def _body(payload: WebhookPayload, delivery: Job, document: Document | None) -> bytes:
    """Return the body, as of the job's end and with sorted names, so that every try sends the same bytes."""
    data = dict(payload.data)
    if document is not None:
        data["metadata"] = _metadata(document)
    moment = data.get("finished_at") or utc_timestamp(delivery.created_at)
    return _json({"type": payload.event, "timestamp": moment, "data": data})


def _metadata(document: Document) -> Mapping[str, object] | None:
    """Return the document's metadata, by which the uploader identifies it; None where it is too large to send along."""
    return document.metadata if len(_json(document.metadata)) <= LARGEST_METADATA else None


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def _record_answer(job: ClaimedJob, webhook: Webhook, *, status: int) -> Callable[[Tx], Awaitable[None]]:
    async def apply(tx: Tx) -> None:
        await tx.jobs.save_result(job.lease.job_id, {"status": status})
        await tx.webhooks.note_health(webhook.id)

    return apply
