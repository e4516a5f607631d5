"""A webhook: an address that a tenant's events are sent to, signed by the rules of Standard Webhooks 1.0.0.

A delivery is a job of the kind `webhook`. It is made in the transaction that ends the job that it announces.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from app.domain import selftest
from app.domain.ids import JobId, TenantId, WebhookId
from app.domain.jobs import Attempt, Job, NewJob

KIND = "webhook"

SILENT = frozenset({KIND, selftest.KIND})
"""Kinds whose end is not announced. A delivery that announced its own end would start an endless chain."""

MOST = 20
"""Webhooks of a tenant. Each event costs one job for every one of them."""

TRIES = 10
"""Tries of one delivery: the first at once, the last about three days later."""

WAITS = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
"""Waits between the tries, as Standard Webhooks recommends them."""

JITTER = 0.1
"""The largest share by which a wait is stretched, so that the deliveries of an outage don't come back as one wave."""

LONGEST_WAIT = timedelta(hours=24)
"""The longest wait that a receiver can ask for by `Retry-After`."""

SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix by which libraries know a secret
SECRET_BYTES = 32

OVERLAP = timedelta(days=1)
"""The time after a rotation during which the former secret signs too."""


class Event(StrEnum):
    """An event that a webhook can subscribe to."""

    JOB_DONE = "job.done"
    JOB_FAILED = "job.failed"
    JOB_CANCELLED = "job.cancelled"


TEST = "webhook.test"
"""The event that is sent on request, whatever the webhook subscribes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    id: WebhookId
    tenant_id: TenantId
    url: str
    events: frozenset[Event]
    description: str
    secret: str
    """Stored in clear, because it signs. Only a secret that is merely verified could be stored as a hash."""
    previous_secret: str | None = None
    previous_until: datetime | None = None
    created_at: datetime
    healthy_at: datetime
    """The time of the last delivery that succeeded, or of the webhook's creation or enabling if that was later."""
    disabled_at: datetime | None = None
    disabled_reason: str | None = None

    def secrets_at(self, now: datetime) -> list[str]:
        """Return the secrets that sign, the newest first."""
        if self.previous_secret is None or self.previous_until is None or now >= self.previous_until:
            return [self.secret]
        return [self.secret, self.previous_secret]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRecord:
    """A delivery in the log of a webhook."""

    job: Job
    attempts: list[Attempt]
    """The attempts that ended, oldest first."""


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signature(secret: str, *, message_id: str, timestamp: int, body: bytes) -> str:
    """Return one entry of `webhook-signature`. Several entries are separated by a space."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def announcement(webhook_id: WebhookId, job: Job, *, delivery_id: JobId) -> NewJob:
    """Return the delivery that announces a job's end."""
    return delivery_job(
        webhook_id,
        delivery_id=delivery_id,
        event=f"job.{job.state}",
        job_id=job.id,
        data=event_data(job),
        traceparent=job.traceparent,
    )


def delivery_job(
    webhook_id: WebhookId,
    *,
    delivery_id: JobId,
    event: str,
    data: Mapping[str, object],
    job_id: JobId | None = None,
    traceparent: str | None = None,
) -> NewJob:
    payload = {"webhook_id": str(webhook_id), "event": event, "data": dict(data)}
    if job_id is not None:
        payload["job_id"] = str(job_id)
    return NewJob(
        id=delivery_id,
        kind=KIND,
        webhook_id=webhook_id,
        payload=payload,
        max_attempts=TRIES,
        traceparent=traceparent,
    )


def event_data(job: Job) -> dict[str, object]:
    """Return the job as it ended, in the form of `daira.announce`.

    Every try sends the same bytes, whatever happens later.
    """
    error = None if job.error is None else {"code": job.error.code, "message": job.error.message}
    return {
        "id": str(job.id),
        "document_id": None if job.document_id is None else str(job.document_id),
        "kind": job.kind,
        "state": str(job.state),
        "attempts": job.attempts,
        "failures": job.failures,
        "expiries": job.expiries,
        "error": error,
        "created_at": utc_timestamp(job.created_at),
        "started_at": None if job.started_at is None else utc_timestamp(job.started_at),
        "finished_at": None if job.finished_at is None else utc_timestamp(job.finished_at),
    }


def utc_timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
