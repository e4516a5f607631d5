"""A job and its states.

queued ──claim──▶ claimed ──settle──▶ done | failed | cancelled
   ▲                 │
   └─ retry, snooze, release, expired lease
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from app.domain.ids import DocumentId, JobId, TenantId, WebhookId

MAX_ATTEMPTS = 5
"""Failures of the handler before a job is failed; crashes and deploys are counted apart."""

MAX_EXPIRIES = 3
"""Lost workers before a job is failed as `worker_lost`: it may be what kills them."""

APART = timedelta(seconds=15)
"""Jobs that lost two workers are run again at random times within this: one of those that died together may be what
kills them, and must not take the others along a third time."""

FIRST_RING_GRACE = timedelta(seconds=5)
"""What the ring after the commit is given to land before the sweeper rings again."""

RING_AGAIN = timedelta(seconds=30)
RING_AGAIN_CAP = timedelta(minutes=15)
"""The sweeper's interval doubles from the one to the other, or a fleet without workers would flood its queue."""


class JobState(StrEnum):
    QUEUED = "queued"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in {JobState.DONE, JobState.FAILED, JobState.CANCELLED}


class AttemptOutcome(StrEnum):
    """How one attempt ended."""

    DONE = "done"
    RETRY = "retry"
    FAIL = "fail"
    SNOOZE = "snooze"
    RELEASE = "release"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    code: str
    message: str


CANCELLED = JobError(code="cancelled", message="cancelled on request")
WORKER_LOST = JobError(code="worker_lost", message="the worker stopped renewing its lease: killed or cut off")


EQUAL_IS_LIVE = "an equal job is queued or running already"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    done: int
    total: int
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """What enqueueing needs; the rest of the row is the store's."""

    id: JobId
    kind: str
    document_id: DocumentId | None = None
    webhook_id: WebhookId | None = None
    """Whose delivery it is."""
    payload: Mapping[str, object]
    dedup_key: str | None = None
    priority: int = 0
    run_in: timedelta = timedelta()
    max_attempts: int = MAX_ATTEMPTS
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    id: JobId
    tenant_id: TenantId
    kind: str
    state: JobState
    document_id: DocumentId | None
    payload: Mapping[str, object]
    dedup_key: str | None
    priority: int
    attempts: int
    """Claims so far. It only ever grows, so it is the fencing token of the lease."""
    failures: int
    expiries: int
    releases: int
    max_attempts: int
    cancel_requested: bool
    progress: Progress | None
    error: JobError | None
    result: object
    traceparent: str | None
    run_after: datetime
    created_at: datetime
    claimed_by: str | None
    """For people to read; never a fence."""
    lease_until: datetime | None
    started_at: datetime | None
    """Start of the latest attempt."""
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The history of a job, one entry for each attempt that ended."""

    job_id: JobId
    attempt: int
    worker: str
    started_at: datetime
    finished_at: datetime
    outcome: AttemptOutcome
    error: JobError | None
