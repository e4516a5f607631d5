"""The right to work on a job for a while, and how it is given back."""

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

    A tuple, for it is a key wherever jobs are many: it hashes and compares a dozen times faster than a dataclass.
    """

    tenant_id: TenantId
    job_id: JobId
    attempt: int


class ClaimOutcome(StrEnum):
    CLAIMED = "claimed"
    TAKEN = "taken"
    """Another attempt holds it."""
    NOT_DUE = "not_due"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN_KIND = "unknown_kind"
    """A newer web, an older worker: it was put off, at no cost to the job."""
    CAPPED = "capped"
    """The tenant runs as many as it may: rung for again when one of them ends."""
    SUSPENDED = "suspended"
    """The tenant is: put off likewise."""
    MISSING_OR_LOCKED = "missing_or_locked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedJob:
    """What a handler may know of its job. Everything else it reads itself, under the clamp."""

    lease: Lease
    kind: str
    document_id: DocumentId | None
    payload: Mapping[str, object]
    failures: int
    max_attempts: int
    traceparent: str | None
    waited: timedelta
    """From when it was due to the claim, by the database's clock."""
    capped: bool = False
    """The tenant's running jobs have a cap: when this one ends, another may be waiting for its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The answer to one doorbell; `job` is there exactly when the outcome is CLAIMED."""

    ring: Ring
    outcome: ClaimOutcome
    job: ClaimedJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseBeat:
    """A sign of life, with the progress where there is some to tell."""

    lease: Lease
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatResult:
    """The answer to a pulse."""

    lease: Lease
    held: bool
    """False: the lease is lost. Stop, and write nothing."""
    cancel_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How an attempt ends. Where a cancel was asked for meanwhile, QUEUED and FAILED become CANCELLED."""

    lease: Lease
    state: JobState
    outcome: AttemptOutcome
    error: JobError | None = None
    delay: timedelta = timedelta()
    """Until the job is due again, where it goes back to QUEUED."""
    progress: Progress | None = None
    """How far it was at its end; None: as last told."""

    @property
    def failures(self) -> int:
        return int(self.outcome in {AttemptOutcome.RETRY, AttemptOutcome.FAIL})

    @property
    def releases(self) -> int:
        return int(self.outcome is AttemptOutcome.RELEASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledAttempt:
    """The attempt is ended."""

    bells: Sequence[tuple[str, Ring]] = ()
    """Kinds and rings of the deliveries that tell of the job's end: for after the commit."""
