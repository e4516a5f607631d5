"""A handler's outcomes and the settlements that they become, decided without a clock and without a store."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_never

from app.domain.doorbells import Ring
from app.domain.jobs import CANCELLED, AttemptOutcome, JobError, JobState, Progress
from app.domain.leases import ClaimedJob, Settlement

BACKOFF = timedelta(seconds=30)
"""Long enough that the jobs of one outage are spread over all of it, and don't come back as one wave."""

BACKOFF_CAP = timedelta(minutes=10)
BACKOFF_FLOOR = timedelta(seconds=1)
NO_DELAY = timedelta()


PUT_BACK = JobError(
    code="unavailable", message="the service can't do this just now: the job waits, and goes on by itself"
)

DeliveryRings = Sequence[tuple[str, Ring]]
"""Kinds and rings of jobs that have become due. They are rung after the commit."""


@dataclass(frozen=True, slots=True)
class Done:
    apply: Callable[[Any], Awaitable[DeliveryRings | None]] | None = None
    """A function that writes the results in the transaction (a `Tx`) that settles the job, after the fence has held."""


@dataclass(frozen=True, slots=True)
class Retry:
    reason: JobError
    after: timedelta | None = None
    """The wait that the other side asked for (`Retry-After`); None means back off."""


@dataclass(frozen=True, slots=True)
class Fail:
    """A permanent failure: the same input would fail again."""

    reason: JobError


@dataclass(frozen=True, slots=True)
class Snooze:
    """A postponement that is nobody's fault: no failure is counted."""

    after: timedelta
    reason: JobError | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """The end of an attempt because the worker stops. The job continues elsewhere and no failure is counted."""


@dataclass(frozen=True, slots=True)
class Yield:
    """The end of an attempt in favour of others. Its partial results are stored, and nothing is counted."""

    recognition: bool = False
    """True if the job waits for a recognition slot. It is then not rung for: whoever frees a slot claims it."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A failure that a fault of the installation may explain. Probes decide: if one fails, the job is not to blame."""

    ending: Retry | Fail
    """The ending if the installation is in order."""
    excusable: bool = True
    """False where the work may have broken what it used, as a question that stops a model's server: it counts, or it
    would be repeated for ever. Only other jobs are spared then."""


Outcome = Done | Retry | Fail | Snooze | Yield | Suspect
Ending = Done | Retry | Fail | Snooze | Yield | Release


def backoff(failures: int, *, jitter: float) -> timedelta:
    """Return the wait after a failure that follows `failures` earlier ones.

    `jitter`, 0 to 1, is the share of it to wait.
    """
    full = min(BACKOFF_CAP, BACKOFF * (1 << min(failures, 16)))
    return BACKOFF_FLOOR + (full - BACKOFF_FLOOR) * jitter


def excused(wait: timedelta, *, jitter: float) -> Snooze:
    """Return the ending of an attempt that failed by a fault of the installation."""
    return Snooze(wait * (1 + jitter), PUT_BACK)


def settlement(job: ClaimedJob, ending: Ending, *, jitter: float, progress: Progress | None = None) -> Settlement:
    """Return the settlement of an attempt. `progress` is the attempt's last progress."""
    if isinstance(ending, Retry) and job.failures + 1 >= job.max_attempts:
        ending = Fail(ending.reason)
    state, outcome, error, delay = _end_state(job, ending, jitter=jitter)
    return Settlement(
        lease=job.lease,
        state=state,
        outcome=outcome,
        error=error,
        delay=delay,
        progress=progress,
        recognition=ending.recognition if isinstance(ending, Yield) else None,
    )


def _end_state(
    job: ClaimedJob, ending: Ending, *, jitter: float
) -> tuple[JobState, AttemptOutcome, JobError | None, timedelta]:
    match ending:
        case Done():
            return JobState.DONE, AttemptOutcome.DONE, None, NO_DELAY
        case Fail(reason) if reason == CANCELLED:
            return JobState.CANCELLED, AttemptOutcome.CANCELLED, reason, NO_DELAY
        case Fail(reason):
            return JobState.FAILED, AttemptOutcome.FAIL, reason, NO_DELAY
        case Retry(reason, after):
            delay = backoff(job.failures, jitter=jitter) if after is None else after
            return JobState.QUEUED, AttemptOutcome.RETRY, reason, max(delay, BACKOFF_FLOOR)
        case Snooze(after, reason):
            return JobState.QUEUED, AttemptOutcome.SNOOZE, reason, max(after, BACKOFF_FLOOR)
        case Yield() | Release():
            outcome = AttemptOutcome.YIELD if isinstance(ending, Yield) else AttemptOutcome.RELEASE
            return JobState.QUEUED, outcome, None, NO_DELAY
        case _:
            assert_never(ending)
