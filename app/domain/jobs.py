"""A job and its states.

queued ──claim──▶ claimed ──settle──▶ done | failed | cancelled
   ▲                 │
   └─ retry, snooze, release, yield, expired lease
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from app.domain.ids import DocumentId, JobId, TenantId, WebhookId

MAX_ATTEMPTS = 5
"""Failures of the handler before a job is failed. Crashes and deploys are counted separately."""

MAX_EXPIRIES = 3
"""Lost workers before a job is failed as `worker_lost`, because the job itself may kill them."""

APART = timedelta(seconds=15)
"""The span of random delays before jobs that lost two workers run again.
One of the jobs may be the cause. Run apart from the others, it does not take them along a third time."""

FIRST_RING_GRACE = timedelta(seconds=5)
"""The time given to the ring after the commit before the sweeper rings again."""

RING_AGAIN = timedelta(seconds=30)
RING_AGAIN_CAP = timedelta(minutes=15)
"""The sweeper's interval doubles from RING_AGAIN to this.
Otherwise a deployment without workers would fill its queue."""


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
    """The way in which one attempt ended."""

    DONE = "done"
    RETRY = "retry"
    FAIL = "fail"
    SNOOZE = "snooze"
    RELEASE = "release"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    YIELD = "yield"
    """Put back for other tenants. Nothing is counted, and the job's history has no entry for it."""


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
    """The values that enqueueing a job needs. The store sets the rest of the row."""

    id: JobId
    kind: str
    document_id: DocumentId | None = None
    webhook_id: WebhookId | None = None
    """The webhook of a delivery."""
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
    """Claims so far. The number only grows, so it is the fencing token of the lease."""
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
    """Shown to people; never used as a fence."""
    lease_until: datetime | None
    started_at: datetime | None
    """Start of the latest attempt."""
    finished_at: datetime | None
    recognition: bool = False
    """True if the job was put back because it needs OCR and no recognition slot was free."""
    worked: timedelta = timedelta()
    """The time of all attempts that ended, apart from those whose worker was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Conditions on a tenant's jobs, all of which must hold. None and an empty set allow any."""

    states: frozenset[JobState]
    kinds: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    """Codes of the latest error."""
    since: timedelta | None = None
    """The longest time since the job ended, or since it was made if it has not ended."""
    until: timedelta | None = None
    """The shortest such time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An entry in a job's history, one for each attempt that ended."""

    job_id: JobId
    attempt: int
    worker: str
    started_at: datetime
    finished_at: datetime
    outcome: AttemptOutcome
    error: JobError | None
