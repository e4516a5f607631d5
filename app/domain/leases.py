"""A lease: the right to work on a job for a limited time, and the ways in which it ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from app.domain.doorbells import Ring
from app.domain.ids import DocumentId, JobId, TenantId
from app.domain.jobs import AttemptOutcome, JobError, JobState, Progress


class Lease(NamedTuple):
    """The fence: a worker's write counts only while the job is claimed in this very attempt.

    It is a tuple, because it is a key wherever jobs are many. A tuple hashes and compares a dozen times faster than a
    dataclass.
    """

    tenant_id: TenantId
    job_id: JobId
    attempt: int


class ClaimOutcome(StrEnum):
    CLAIMED = "claimed"
    TAKEN = "taken"
    """Another attempt holds the job."""
    NOT_DUE = "not_due"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN_KIND = "unknown_kind"
    """The job is of a kind that only a newer version knows. It was put off, which does not count against it."""
    RECOGNITION = "recognition"
    """The job waits for a recognition slot, and this worker has none free. It is claimed when one becomes free."""
    CAPPED = "capped"
    """The tenant runs as many jobs as it may. The job is rung for again when one of them ends."""
    SUSPENDED = "suspended"
    """The tenant is suspended. The job was put off, as for UNKNOWN_KIND."""
    MISSING_OR_LOCKED = "missing_or_locked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedJob:
    """The part of a job that its handler receives. The handler reads everything else itself, under the clamp."""

    lease: Lease
    kind: str
    document_id: DocumentId | None
    payload: Mapping[str, object]
    failures: int
    max_attempts: int
    traceparent: str | None
    waited: timedelta
    """The time from when the job was due to the claim, by the database's clock."""
    capped: bool = False
    """True where the tenant's running jobs have a cap. When this job ends, another one may be waiting for its slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """The answer to one doorbell. `job` is set exactly when the outcome is CLAIMED."""

    ring: Ring
    outcome: ClaimOutcome
    job: ClaimedJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseBeat:
    """A heartbeat of a lease, with the job's progress where a handler has reported some."""

    lease: Lease
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatResult:
    """The answer to a heartbeat."""

    lease: Lease
    held: bool
    """False when the lease is lost: stop, and write nothing."""
    cancel_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of an attempt. If a cancel was requested meanwhile, QUEUED and FAILED become CANCELLED."""

    lease: Lease
    state: JobState
    outcome: AttemptOutcome
    error: JobError | None = None
    delay: timedelta = timedelta()
    """The time until the job is due again, where it goes back to QUEUED."""
    progress: Progress | None = None
    """The progress at the end of the attempt; None keeps the last one reported."""
    recognition: bool | None = None
    """Set for a job that is put back for others: True if it waits for a recognition slot."""

    @property
    def failures(self) -> int:
        return int(self.outcome in {AttemptOutcome.RETRY, AttemptOutcome.FAIL})

    @property
    def releases(self) -> int:
        return int(self.outcome is AttemptOutcome.RELEASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledAttempt:
    """The result of a settle that held."""

    bells: Sequence[tuple[str, Ring]] = ()
    """Kinds and rings of the deliveries that announce the job's end. They are rung after the commit."""
