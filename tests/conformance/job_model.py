"""A job as the contracts have it: a small model, written from the documents and without a look at any store."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from app.domain.ids import TenantId
from app.domain.jobs import CANCELLED, WORKER_LOST, Attempt, AttemptOutcome, Job, JobError, JobState, NewJob
from app.domain.leases import ClaimedJob, ClaimOutcome, Lease, LeaseBeat, Settlement
from app.domain.outcomes import Done, Ending, Fail, Release, Retry, Snooze, Yield
from tests.support.rig import LEASE, SECOND

PUT_OFF = timedelta(minutes=1)
GRACE = 5 * SECOND
LOST_WORKERS = 3
JITTER = 1.25
"""The longest stretch of the interval between two rings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """When something was, as closely as it is known: the database has a clock of its own."""

    since: datetime
    until: datetime

    def moment(self, told: datetime | None) -> datetime:
        """The very moment of a step, told by a time that it left in a row."""
        assert told is not None, "the step left no time in the row"
        assert self.since <= told <= self.until, "the step left a time that is not its own"
        return told

    def certainly_from(self, start: datetime) -> bool:
        return start <= self.since

    def possibly_from(self, start: datetime) -> bool:
        return start <= self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One job: its row, how its attempts ended, and what the sweeper alone sees."""

    row: Job
    history: tuple[Attempt, ...] = ()
    ring_after: Span
    rings: int = 0

    @property
    def lease(self) -> Lease | None:
        """Of the one that may write; everybody else is late."""
        return token(self, age=0) if self.row.state is JobState.CLAIMED else None


def exactly(moment: datetime) -> Span:
    return Span(since=moment, until=moment)


def token(job: Model, *, age: int, tenant: TenantId | None = None) -> Lease:
    """That of the latest attempt, or of one so many claims before; -1 is one that nobody was given yet."""
    row = job.row
    return Lease(tenant_id=tenant or row.tenant_id, job_id=row.id, attempt=row.attempts - age)


def enqueued(new: NewJob, *, tenant: TenantId, now: datetime) -> Model:
    row = Job(
        id=new.id,
        tenant_id=tenant,
        kind=new.kind,
        state=JobState.QUEUED,
        document_id=new.document_id,
        payload=new.payload,
        dedup_key=new.dedup_key,
        priority=new.priority,
        attempts=0,
        failures=0,
        expiries=0,
        releases=0,
        max_attempts=new.max_attempts,
        cancel_requested=False,
        progress=None,
        error=None,
        result=None,
        traceparent=new.traceparent,
        run_after=now + new.run_in,
        created_at=now,
        claimed_by=None,
        lease_until=None,
        started_at=None,
        finished_at=None,
    )
    return Model(row=row, ring_after=exactly(now + new.run_in + GRACE))


def claim_outcomes(job: Model, *, suspended: bool, kinds: frozenset[str], span: Span) -> set[ClaimOutcome]:
    """What a doorbell may be answered; more than one where the job became due in that very moment."""
    match job.row.state:
        case JobState.CLAIMED:
            return {ClaimOutcome.TAKEN}
        case JobState.DONE | JobState.FAILED | JobState.CANCELLED as ended:
            return {ClaimOutcome(ended.value)}
        case JobState.QUEUED:
            due = ClaimOutcome.CLAIMED if job.row.kind in kinds else ClaimOutcome.UNKNOWN_KIND
            due = ClaimOutcome.SUSPENDED if suspended else due
            early = set() if span.certainly_from(job.row.run_after) else {ClaimOutcome.NOT_DUE}
            return early | ({due} if span.possibly_from(job.row.run_after) else set())
        case _:
            assert_never(job.row.state)


def claimed(job: Model, *, worker: str, now: datetime) -> Model:
    row = replace(
        job.row,
        state=JobState.CLAIMED,
        attempts=job.row.attempts + 1,
        claimed_by=worker,
        lease_until=now + LEASE,
        started_at=now,
        progress=None,
    )
    return replace(job, row=row, rings=0)


def handed_out(job: Model, *, waited: timedelta, capped: bool) -> ClaimedJob:
    return ClaimedJob(
        lease=token(job, age=0),
        kind=job.row.kind,
        document_id=job.row.document_id,
        payload=job.row.payload,
        failures=job.row.failures,
        max_attempts=job.row.max_attempts,
        traceparent=job.row.traceparent,
        waited=waited,
        capped=capped,
    )


def put_off(job: Model, *, now: datetime) -> Model:
    return _queued(job, due=now + PUT_OFF, ring_after=now + PUT_OFF + GRACE)


def capped(job: Model, *, span: Span) -> Model:
    return replace(job, ring_after=_later(span, ring_interval(0), ring_interval(0)))


def beaten(job: Model, pulse: LeaseBeat, *, now: datetime) -> Model:
    progress = pulse.progress or job.row.progress
    return replace(job, row=replace(job.row, lease_until=now + LEASE, progress=progress))


def cancelled(job: Model, *, now: datetime) -> Model:
    """A queued job ends, a claimed one is flagged, an ended one stays as it is."""
    if job.row.state.terminal:
        return job
    flagged = replace(job, row=replace(job.row, cancel_requested=True))
    if job.row.state is JobState.CLAIMED:
        return flagged
    return _ended(flagged, JobState.CANCELLED, error=CANCELLED, now=now)


def next_state(job: Model, ending: Ending) -> JobState:
    """What becomes of a job that is so ended by its holder."""
    state = _wanted(job, ending)
    return JobState.CANCELLED if job.row.cancel_requested and state is not JobState.DONE else state


def settled(job: Model, ending: Ending, settlement: Settlement, *, now: datetime, result: object) -> Model:
    """Of the settlement only what the ending does not say: for how long to wait, and how far it was."""
    state, reason = next_state(job, ending), _reason(ending)
    outcome = AttemptOutcome.CANCELLED if state is JobState.CANCELLED else _outcome(job, ending)
    assert job.row.started_at is not None
    row = replace(
        job.row,
        worked=job.row.worked + (now - job.row.started_at),
        failures=job.row.failures
        + int(isinstance(ending, Retry) or (isinstance(ending, Fail) and reason != CANCELLED)),
        releases=job.row.releases + int(isinstance(ending, Release)),
        progress=settlement.progress or job.row.progress,
        result=result if state is JobState.DONE else None,
    )
    after = replace(job, row=_given_back(row), history=_noted(job, outcome, error=reason, now=now))
    if state is JobState.QUEUED:
        due = now + settlement.delay
        return _queued(after, due=due, ring_after=due + GRACE, error=reason or row.error)
    errors = {JobState.DONE: None, JobState.CANCELLED: CANCELLED}
    return _ended(after, state, error=errors.get(state, reason), now=now)


def expiry_state(job: Model) -> JobState:
    """What becomes of a job whose worker was lost."""
    if job.row.cancel_requested:
        return JobState.CANCELLED
    return JobState.FAILED if job.row.expiries + 1 == LOST_WORKERS else JobState.QUEUED


def expired(job: Model, *, now: datetime, due: datetime) -> Model:
    """`due`: when the store tries it again, which is its own choice within bounds the second time."""
    state = expiry_state(job)
    row = replace(_given_back(job.row), expiries=job.row.expiries + 1, progress=None)
    after = replace(job, row=row, history=_noted(job, AttemptOutcome.EXPIRED, error=WORKER_LOST, now=now))
    if state is JobState.QUEUED and row.expiries == LOST_WORKERS - 1:
        assert now <= due <= now + 15 * SECOND
        return _queued(after, due=due, ring_after=due + ring_interval(0), error=WORKER_LOST)
    if state is JobState.QUEUED:
        return _queued(after, due=now, ring_after=now + ring_interval(0), error=WORKER_LOST)
    return _ended(after, state, error=CANCELLED if state is JobState.CANCELLED else WORKER_LOST, now=now)


def ring_interval(rings: int) -> timedelta:
    return min(timedelta(minutes=15), 30 * SECOND * (1 << rings))


def rung(job: Model, *, span: Span) -> Model:
    interval = ring_interval(job.rings)
    return replace(job, ring_after=_later(span, interval, interval * JITTER), rings=job.rings + 1)


def _later(span: Span, least: timedelta, most: timedelta) -> Span:
    return Span(since=span.since + least, until=span.until + most)


def _wanted(job: Model, ending: Ending) -> JobState:
    match ending:
        case Done():
            return JobState.DONE
        case Fail(reason) if reason == CANCELLED:
            return JobState.CANCELLED
        case Fail():
            return JobState.FAILED
        case Retry() if job.row.failures + 1 >= job.row.max_attempts:
            return JobState.FAILED
        case Retry() | Snooze() | Yield() | Release():
            return JobState.QUEUED
        case _:
            assert_never(ending)


def _outcome(job: Model, ending: Ending) -> AttemptOutcome:
    match ending:
        case Done():
            return AttemptOutcome.DONE
        case Retry() if _wanted(job, ending) is JobState.QUEUED:
            return AttemptOutcome.RETRY
        case Retry() | Fail():
            return AttemptOutcome.FAIL
        case Snooze():
            return AttemptOutcome.SNOOZE
        case Yield():
            return AttemptOutcome.YIELD
        case Release():
            return AttemptOutcome.RELEASE
        case _:
            assert_never(ending)


def _reason(ending: Ending) -> JobError | None:
    return None if isinstance(ending, Done | Release | Yield) else ending.reason


def _given_back(row: Job) -> Job:
    return replace(row, claimed_by=None, lease_until=None)


def _queued(job: Model, *, due: datetime, ring_after: datetime, error: JobError | None = None) -> Model:
    row = replace(job.row, state=JobState.QUEUED, run_after=due, progress=None, error=error or job.row.error)
    return replace(job, row=row, ring_after=exactly(ring_after), rings=0)


def _ended(job: Model, state: JobState, *, error: JobError | None, now: datetime) -> Model:
    return replace(job, row=replace(job.row, state=state, error=error, finished_at=now))


def _noted(job: Model, outcome: AttemptOutcome, *, error: JobError | None, now: datetime) -> tuple[Attempt, ...]:
    row = job.row
    assert row.claimed_by is not None
    assert row.started_at is not None
    entry = Attempt(
        job_id=row.id,
        attempt=row.attempts,
        worker=row.claimed_by,
        started_at=row.started_at,
        finished_at=now,
        outcome=outcome,
        error=error,
    )
    return (*job.history, entry)
