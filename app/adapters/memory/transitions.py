"""Transitions from one job row to the next, decided without a store."""

import math
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta

from app.adapters.memory.store import JobRow, TenantTables
from app.domain.doorbells import Ring
from app.domain.ids import JobId, TenantId
from app.domain.jobs import (
    APART,
    CANCELLED,
    FIRST_RING_GRACE,
    MAX_EXPIRIES,
    RING_AGAIN,
    RING_AGAIN_CAP,
    WORKER_LOST,
    Attempt,
    AttemptOutcome,
    Job,
    JobError,
    JobState,
    NewJob,
)
from app.domain.leases import Lease, SettledAttempt, Settlement
from app.domain.text import scrub, scrub_error, scrub_mapping, scrub_progress
from app.domain.webhooks import KIND as WEBHOOK
from app.domain.webhooks import SILENT, announcement

PUT_OFF = timedelta(minutes=1)
JITTER = 0.25
"""The largest share of a ring interval that is added to it."""


def queued(job: NewJob, *, tenant: TenantId, now: datetime) -> JobRow:
    run_after = now + job.run_in
    row = Job(
        id=job.id,
        tenant_id=tenant,
        kind=scrub(job.kind),
        state=JobState.QUEUED,
        document_id=job.document_id,
        payload=scrub_mapping(job.payload),
        dedup_key=None if job.dedup_key is None else scrub(job.dedup_key),
        priority=job.priority,
        attempts=0,
        failures=0,
        expiries=0,
        releases=0,
        max_attempts=job.max_attempts,
        cancel_requested=False,
        progress=None,
        error=None,
        result=None,
        traceparent=None if job.traceparent is None else scrub(job.traceparent),
        run_after=run_after,
        created_at=now,
        claimed_by=None,
        lease_until=None,
        started_at=None,
        finished_at=None,
    )
    return JobRow(job=row, ring_after=run_after + FIRST_RING_GRACE)


def copied(job: Job) -> Job:
    """A copy for callers, which could change the payload."""
    return replace(job, payload=deepcopy(job.payload))


def claimed(row: JobRow, *, worker: str, lease: timedelta, now: datetime) -> JobRow:
    job = replace(
        row.job,
        state=JobState.CLAIMED,
        attempts=row.job.attempts + 1,
        claimed_by=scrub(worker),
        lease_until=now + lease,
        started_at=now,
        progress=None,
    )
    return replace(row, job=job, rings=0)


def room(tables: TenantTables, *, now: datetime) -> float:
    """The number of jobs that the tenant may begin; infinite without a cap."""
    cap = None if tables.tenant is None else tables.tenant.limits.max_running
    if cap is None:
        return math.inf
    # Deliveries are not the tenant's own work.
    jobs = (row.job for row in tables.jobs.values() if row.job.kind != WEBHOOK)
    running = sum(job.lease_until is not None and job.lease_until >= now for job in jobs)
    return max(0, cap - running)


def capped(row: JobRow, *, now: datetime) -> JobRow:
    return replace(row, ring_after=now + RING_AGAIN)


def without_a_slot(row: JobRow, *, now: datetime) -> JobRow:
    return replace(row, ring_after=max(row.ring_after, now + RING_AGAIN))


def put_off(row: JobRow, *, now: datetime) -> JobRow:
    run_after = now + PUT_OFF
    return JobRow(job=replace(row.job, run_after=run_after), ring_after=run_after + FIRST_RING_GRACE)


def retried(row: JobRow, *, now: datetime) -> JobRow:
    job = replace(
        row.job,
        failures=0,
        expiries=0,
        worked=timedelta(),
        cancel_requested=False,
        error=None,
        result=None,
        finished_at=None,
    )
    return _again(job, run_after=now, grace=FIRST_RING_GRACE)


def woken(row: JobRow, *, now: datetime) -> JobRow:
    return JobRow(job=replace(row.job, run_after=now), ring_after=now + FIRST_RING_GRACE)


def cancelled(row: JobRow, *, now: datetime) -> JobRow:
    job = replace(row.job, state=JobState.CANCELLED, cancel_requested=True, error=CANCELLED, finished_at=now)
    return replace(row, job=job)


def holds(row: JobRow | None, lease: Lease) -> bool:
    """The fence: return True if the job is still claimed, in the lease's own attempt."""
    return row is not None and row.job.state is JobState.CLAIMED and row.job.attempts == lease.attempt


def settle(tables: TenantTables, settlement: Settlement, *, now: datetime) -> SettledAttempt | None:
    """End an attempt. Returns None, and writes nothing, if the lease is lost."""
    lease = settlement.lease
    row = tables.jobs.get(lease.job_id)
    if row is None or not holds(row, lease):
        return None
    tables.jobs[lease.job_id] = after = _settled(row, settlement, now=now)
    outcome = AttemptOutcome.CANCELLED if after.job.state is JobState.CANCELLED else settlement.outcome
    if outcome is not AttemptOutcome.YIELD:
        note_attempt(tables, row.job, outcome=outcome, error=settlement.error, now=now)
    return SettledAttempt(bells=announce(tables, after.job, now=now))


def announce(tables: TenantTables, job: Job, *, now: datetime) -> list[tuple[str, Ring]]:
    """Add a delivery for each webhook that asks for the job's end. Returns the bells to ring after the commit."""
    if not job.state.terminal or job.kind in SILENT:
        return []
    listening = [w for w in tables.webhooks.values() if w.disabled_at is None and f"job.{job.state}" in w.events]
    deliveries = [
        queued(announcement(webhook.id, job, delivery_id=JobId(tables.ids.at(now))), tenant=job.tenant_id, now=now)
        for webhook in listening
    ]
    tables.jobs.update((row.job.id, row) for row in deliveries)
    return [(WEBHOOK, Ring(job.tenant_id, row.job.id)) for row in deliveries]


def expire(tables: TenantTables, row: JobRow, *, now: datetime, jitter: float) -> JobRow:
    """End an attempt whose lease has ended; `jitter` is in 0..1."""
    tables.jobs[row.job.id] = after = _expired(row, now=now, jitter=jitter)
    note_attempt(tables, row.job, outcome=AttemptOutcome.EXPIRED, error=WORKER_LOST, now=now)
    return after


def rung(row: JobRow, *, now: datetime, jitter: float) -> JobRow:
    """Postpone the next ring; `jitter` is in 0..1."""
    interval = min(RING_AGAIN_CAP, RING_AGAIN * (1 << min(row.rings, 10)))
    return replace(row, ring_after=now + interval * (1 + JITTER * jitter), rings=row.rings + 1)


def note_attempt(
    tables: TenantTables, job: Job, *, outcome: AttemptOutcome, error: JobError | None, now: datetime
) -> None:
    """Add an attempt to the history; `job` is the row at the time of the claim."""
    assert job.claimed_by is not None
    assert job.started_at is not None
    attempt = Attempt(
        job_id=job.id,
        attempt=job.attempts,
        worker=job.claimed_by,
        started_at=job.started_at,
        finished_at=now,
        outcome=outcome,
        error=scrub_error(error),
    )
    tables.attempts[job.id] = (*tables.attempts.get(job.id, ()), attempt)


def _settled(row: JobRow, settlement: Settlement, *, now: datetime) -> JobRow:
    state = _final_state(row.job, settlement)
    assert row.job.started_at is not None
    job = replace(
        row.job,
        state=state,
        failures=row.job.failures + settlement.failures,
        releases=row.job.releases + settlement.releases,
        error=_final_error(row.job, settlement, state=state),
        claimed_by=None,
        lease_until=None,
        progress=scrub_progress(settlement.progress) or row.job.progress,
        recognition=row.job.recognition if settlement.recognition is None else settlement.recognition,
        worked=row.job.worked + (now - row.job.started_at),
    )
    if state is JobState.QUEUED:
        back = _again(job, run_after=now + settlement.delay, grace=FIRST_RING_GRACE)
        # A job that was put back for others keeps the progress that it has made.
        return back if settlement.recognition is None else replace(back, job=replace(back.job, progress=job.progress))
    return replace(row, job=replace(job, finished_at=now))


def _final_state(job: Job, settlement: Settlement) -> JobState:
    if job.cancel_requested and settlement.state is not JobState.DONE:
        return JobState.CANCELLED
    return settlement.state


def _final_error(job: Job, settlement: Settlement, *, state: JobState) -> JobError | None:
    if state is JobState.DONE:
        return None
    if state is JobState.CANCELLED:
        return CANCELLED
    return scrub_error(settlement.error) or job.error


def _expired(row: JobRow, *, now: datetime, jitter: float) -> JobRow:
    job = replace(
        row.job,
        expiries=row.job.expiries + 1,
        error=CANCELLED if row.job.cancel_requested else WORKER_LOST,
        claimed_by=None,
        lease_until=None,
        progress=None,
    )
    if job.cancel_requested:
        return replace(row, job=replace(job, state=JobState.CANCELLED, finished_at=now))
    if job.expiries >= MAX_EXPIRIES:
        return replace(row, job=replace(job, state=JobState.FAILED, finished_at=now))
    apart = APART * jitter if job.expiries == MAX_EXPIRIES - 1 else timedelta()
    # The caller rings the job, now or for later, so the sweeper's first interval begins here.
    return _again(job, run_after=now + apart, grace=RING_AGAIN)


def _again(job: Job, *, run_after: datetime, grace: timedelta) -> JobRow:
    back = replace(job, state=JobState.QUEUED, progress=None, run_after=run_after)
    return JobRow(job=back, ring_after=run_after + grace)
