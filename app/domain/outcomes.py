"""What a handler answers, and what becomes of its job: decided here, without a clock and without a store."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_never

from app.domain.jobs import CANCELLED, AttemptOutcome, JobError, JobState
from app.domain.leases import ClaimedJob, Lease, Settlement

BACKOFF = timedelta(seconds=2)
BACKOFF_CAP = timedelta(minutes=10)
BACKOFF_FLOOR = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Done:
    apply: Callable[[Any], Awaitable[None]] | None = None
    """Writes the results, in the transaction (a `Tx`) that settles the job, after the fence has held."""


@dataclass(frozen=True, slots=True)
class Retry:
    reason: JobError
    after: timedelta | None = None
    """What the other side asked for (`Retry-After`); None: back off."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Permanent: the same input would fail again."""

    reason: JobError


@dataclass(frozen=True, slots=True)
class Snooze:
    """Not now, and nobody's fault: no failure is counted."""

    after: timedelta
    reason: JobError | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """The worker stops; the job goes on elsewhere, at no cost."""


Outcome = Done | Retry | Fail | Snooze
Ending = Outcome | Release


def backoff(failures: int, *, jitter: float) -> timedelta:
    """The wait after the failure that follows `failures` earlier ones; `jitter` in 0..1 spreads it by half."""
    full = min(BACKOFF_CAP, BACKOFF * (1 << min(failures, 16)))
    return max(BACKOFF_FLOOR, full * (0.5 + 0.5 * jitter))


def settlement(job: ClaimedJob, ending: Ending, *, jitter: float) -> Settlement:
    lease = job.lease
    match ending:
        case Done():
            return Settlement(lease=lease, state=JobState.DONE, outcome=AttemptOutcome.DONE)
        case Retry():
            return _retry(job, ending, jitter=jitter)
        case Fail(reason) if reason == CANCELLED:
            return Settlement(lease=lease, state=JobState.CANCELLED, outcome=AttemptOutcome.CANCELLED, error=reason)
        case Fail(reason):
            return _failed(lease, reason)
        case Snooze(after, reason):
            return _queued(lease, AttemptOutcome.SNOOZE, delay=max(after, BACKOFF_FLOOR), error=reason)
        case Release():
            return _queued(lease, AttemptOutcome.RELEASE)
        case _:
            assert_never(ending)


def _retry(job: ClaimedJob, ending: Retry, *, jitter: float) -> Settlement:
    if job.failures + 1 >= job.max_attempts:
        return _failed(job.lease, ending.reason)
    delay = backoff(job.failures, jitter=jitter) if ending.after is None else ending.after
    return _queued(job.lease, AttemptOutcome.RETRY, delay=max(delay, BACKOFF_FLOOR), error=ending.reason)


def _failed(lease: Lease, reason: JobError) -> Settlement:
    return Settlement(lease=lease, state=JobState.FAILED, outcome=AttemptOutcome.FAIL, error=reason)


def _queued(
    lease: Lease, outcome: AttemptOutcome, *, delay: timedelta = timedelta(), error: JobError | None = None
) -> Settlement:
    return Settlement(lease=lease, state=JobState.QUEUED, outcome=outcome, delay=delay, error=error)
