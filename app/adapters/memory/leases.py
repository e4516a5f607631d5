"""Claim, beat, settle and sweep on the memory store, one tenant at a time."""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

from app.adapters.memory import transitions
from app.adapters.memory.store import JobRow, MemoryStore, TenantTables
from app.domain.doorbells import Ring
from app.domain.ids import TenantId
from app.domain.jobs import Job, JobState
from app.domain.leases import (
    BeatResult,
    ClaimedJob,
    ClaimOutcome,
    ClaimResult,
    Lease,
    LeaseBeat,
    SettledAttempt,
    Settlement,
)
from app.domain.tenants import TenantState
from app.domain.text import scrub_progress
from app.domain.webhooks import KIND as WEBHOOK
from app.ports.leases import Backlog, CleanupBlockers, SweptJob


@dataclass(slots=True, kw_only=True)
class ClaimTerms:
    """The part of a claim that is the same for all of its doorbells."""

    worker: str
    lease: timedelta
    kinds: frozenset[str]
    recognition: float
    """The recognition slots that are still free; each job that waited for one takes one."""


class MemoryLeases:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def claim(
        self,
        rings: Sequence[Ring],
        *,
        worker: str,
        lease: timedelta,
        kinds: frozenset[str],
        recognition: int | None = None,
    ) -> list[ClaimResult]:
        free = math.inf if recognition is None else recognition
        terms = ClaimTerms(worker=worker, lease=lease, kinds=kinds, recognition=free)
        claims: list[ClaimResult] = []
        for tenant, group in groupby(sorted(set(rings)), key=lambda ring: ring.tenant_id):
            claims += await self._claim_under(tenant, list(group), terms)
        return claims

    async def beat(self, pulses: Sequence[LeaseBeat], *, lease: timedelta) -> list[BeatResult]:
        beats = []
        for pulse in pulses:
            async with self._store.writing(pulse.lease.tenant_id) as tables:
                beats.append(_beat(tables, pulse, lease_until=self._store.now() + lease))
        return beats

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettledAttempt | None]:
        settled = []
        for settlement in settlements:
            async with self._store.writing(settlement.lease.tenant_id) as tables:
                settled.append(transitions.settle(tables, settlement, now=self._store.now()))
        return settled

    async def _claim_under(self, tenant: TenantId, rings: list[Ring], terms: ClaimTerms) -> list[ClaimResult]:
        # A doorbell's tenant may be invented: it must leave nothing here, not even a lock.
        if self._store.tables(tenant).tenant is None:
            return [ClaimResult(ring=ring, outcome=ClaimOutcome.MISSING_OR_LOCKED) for ring in rings]
        async with self._store.writing(tenant) as tables:
            return [_claim(tables, ring, terms, now=self._store.now()) for ring in rings]


def _claim(tables: TenantTables, ring: Ring, terms: ClaimTerms, *, now: datetime) -> ClaimResult:
    row = tables.jobs.get(ring.job_id)
    if row is None:
        return ClaimResult(ring=ring, outcome=ClaimOutcome.MISSING_OR_LOCKED)
    if row.job.state is not JobState.QUEUED:
        return ClaimResult(ring=ring, outcome=_outcome_of(row.job.state))
    outcome = _judge(row, terms, suspended=_is_suspended(tables), now=now)
    # Deliveries are not the tenant's own work and don't count towards its cap.
    room = math.inf if row.job.kind == WEBHOOK else transitions.room(tables, now=now)
    if outcome is ClaimOutcome.CLAIMED and not room:
        outcome = ClaimOutcome.CAPPED
    if outcome is ClaimOutcome.CLAIMED and row.job.recognition:
        terms.recognition -= 1
    tables.jobs[ring.job_id] = after = _after(row, outcome, terms, now=now)
    if outcome is ClaimOutcome.CANCELLED:
        transitions.announce(tables, after.job, now=now)
    waited, is_capped = now - row.job.run_after, room < math.inf
    job = _handed_out(after, waited=waited, capped=is_capped) if outcome is ClaimOutcome.CLAIMED else None
    return ClaimResult(ring=ring, outcome=outcome, job=job)


def _outcome_of(state: JobState) -> ClaimOutcome:
    return ClaimOutcome.TAKEN if state is JobState.CLAIMED else ClaimOutcome(state.value)


def _is_suspended(tables: TenantTables) -> bool:
    return tables.tenant is not None and tables.tenant.state is TenantState.SUSPENDED


def _judge(row: JobRow, terms: ClaimTerms, *, suspended: bool, now: datetime) -> ClaimOutcome:
    """The outcome of a claim on a queued job, apart from the cap."""
    if row.job.cancel_requested:
        return ClaimOutcome.CANCELLED
    if row.job.run_after > now:
        return ClaimOutcome.NOT_DUE
    if suspended:
        return ClaimOutcome.SUSPENDED
    if row.job.kind not in terms.kinds:
        return ClaimOutcome.UNKNOWN_KIND
    if row.job.recognition and terms.recognition < 1:
        return ClaimOutcome.RECOGNITION
    return ClaimOutcome.CLAIMED


def _after(row: JobRow, outcome: ClaimOutcome, terms: ClaimTerms, *, now: datetime) -> JobRow:
    match outcome:
        case ClaimOutcome.CLAIMED:
            return transitions.claimed(row, worker=terms.worker, lease=terms.lease, now=now)
        case ClaimOutcome.CAPPED:
            return transitions.capped(row, now=now)
        case ClaimOutcome.RECOGNITION:
            # The sweeper's interval is kept, and grows: no cap bounds the number of such jobs.
            return transitions.without_a_slot(row, now=now)
        case ClaimOutcome.CANCELLED:
            return transitions.cancelled(row, now=now)
        case ClaimOutcome.SUSPENDED | ClaimOutcome.UNKNOWN_KIND:
            return transitions.put_off(row, now=now)
        case _:
            return row


def _handed_out(row: JobRow, *, waited: timedelta, capped: bool) -> ClaimedJob:
    job = transitions.copied(row.job)
    return ClaimedJob(
        lease=Lease(tenant_id=job.tenant_id, job_id=job.id, attempt=job.attempts),
        kind=job.kind,
        document_id=job.document_id,
        payload=job.payload,
        failures=job.failures,
        max_attempts=job.max_attempts,
        traceparent=job.traceparent,
        waited=waited,
        capped=capped,
    )


def _beat(tables: TenantTables, pulse: LeaseBeat, *, lease_until: datetime) -> BeatResult:
    row = tables.jobs.get(pulse.lease.job_id)
    if row is None or not transitions.holds(row, pulse.lease):
        return BeatResult(lease=pulse.lease, held=False, cancel_requested=False)
    job = replace(row.job, lease_until=lease_until, progress=scrub_progress(pulse.progress) or row.job.progress)
    tables.jobs[job.id] = replace(row, job=job)
    return BeatResult(lease=pulse.lease, held=True, cancel_requested=job.cancel_requested)


class MemorySweeps:
    def __init__(self, store: MemoryStore, *, jitter: Callable[[], float] = random.random) -> None:
        self._store = store
        self._jitter = jitter

    async def now(self) -> datetime:
        return self._store.now()

    async def tenants_with_due_work(
        self, *, limit: int, early: frozenset[str] | None = None, recognition: bool | None = None
    ) -> list[TenantId]:
        wanted = _Wanted(now=self._store.now(), early=early, recognition=recognition)
        due = (tenant for tenant in self._store.registered() if _has_work(self._store.tables(tenant), wanted))
        return list(due)[:limit]

    async def tenants(self, *, after: TenantId | None, limit: int) -> list[TenantId]:
        return [tenant for tenant in self._store.registered() if after is None or tenant > after][:limit]

    async def sweep(
        self,
        tenants: Sequence[TenantId],
        *,
        limit: int,
        early: frozenset[str] | None = None,
        recognition: bool | None = None,
    ) -> list[SweptJob]:
        swept: list[SweptJob] = []
        for tenant in sorted(set(tenants) & set(self._store.registered())):
            async with self._store.writing(tenant) as tables:
                now = self._store.now()
                # Collected before the lost jobs are queued again, because those are rung in this pass anyway.
                unheard = _unheard(tables, _Wanted(now=now, early=early, recognition=recognition))
                for row in _lost(tables, now):
                    swept += self._expire(tables, row, now=now)
                # A tenant with a cap gets rings for as many jobs as may run; its other jobs wait and cost nothing
                # meanwhile. Its deliveries are not counted.
                room = int(min(limit, transitions.room(tables, now=now)))
                swept += [self._ring_again(tables, row, now=now) for row in _rung(unheard, room=room, limit=limit)]
        return swept

    async def backlog(self) -> list[Backlog]:
        jobs: defaultdict[str, list[tuple[Job, bool]]] = defaultdict(list)
        for tenant in self._store.registered():
            tables = self._store.tables(tenant)
            for row in tables.jobs.values():
                if not row.job.state.terminal:
                    jobs[row.job.kind].append((row.job, _is_active(tables)))
        return [_backlog(kind, jobs[kind], now=self._store.now()) for kind in sorted(jobs)]

    async def wear(self) -> CleanupBlockers:
        return CleanupBlockers(dead={}, live={}, oldest_snapshot=timedelta(), oldest_transactions=0)

    def _expire(self, tables: TenantTables, row: JobRow, *, now: datetime) -> list[SweptJob]:
        after = transitions.expire(tables, row, now=now, jitter=self._jitter())
        due = after.job.state is JobState.QUEUED
        delay = after.job.run_after - now if due else timedelta()
        ring = Ring(row.job.tenant_id, row.job.id)
        expired = SweptJob(ring=ring, kind=row.job.kind, expired=True, due=due, delay=delay)
        announced = transitions.announce(tables, after.job, now=now)
        return [expired, *(SweptJob(ring=bell, kind=kind, expired=False, due=True) for kind, bell in announced)]

    def _ring_again(self, tables: TenantTables, row: JobRow, *, now: datetime) -> SweptJob:
        tables.jobs[row.job.id] = transitions.rung(row, now=now, jitter=self._jitter())
        return SweptJob(ring=Ring(row.job.tenant_id, row.job.id), kind=row.job.kind, expired=False, due=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The due jobs that a pass is for."""

    now: datetime
    early: frozenset[str] | None
    recognition: bool | None

    @property
    def is_for_slots(self) -> bool:
        """True for a caller with slots that count towards a tenant's cap; deliveries don't."""
        return self.early is not None and self.early != {WEBHOOK}

    def includes(self, row: JobRow) -> bool:
        if self.recognition is not None and row.job.recognition != self.recognition:
            return False
        return row.ring_after <= self.now if self.early is None else row.job.kind in self.early


def _has_work(tables: TenantTables, wanted: _Wanted) -> bool:
    # A tenant that runs as many jobs as it may waits for none of the caller's slots.
    is_full = wanted.is_for_slots and not transitions.room(tables, now=wanted.now)
    return bool(_lost(tables, wanted.now) or (not is_full and _unheard(tables, wanted)))


def _is_active(tables: TenantTables) -> bool:
    return tables.tenant is not None and tables.tenant.state is TenantState.ACTIVE


def _lost(tables: TenantTables, now: datetime) -> list[JobRow]:
    """Claimed jobs whose lease has ended."""
    return [row for row in tables.jobs.values() if _is_stuck(row.job, now)]


def _unheard(tables: TenantTables, wanted: _Wanted) -> list[JobRow]:
    """Due jobs that are wanted, the one rung the longest ago first."""
    if not _is_active(tables):
        return []
    found = [row for row in tables.jobs.values() if _is_due(row.job, wanted.now) and wanted.includes(row)]
    return sorted(found, key=lambda row: row.ring_after)


def _rung(unheard: list[JobRow], *, room: int, limit: int) -> list[JobRow]:
    own = [row for row in unheard if row.job.kind != WEBHOOK]
    deliveries = [row for row in unheard if row.job.kind == WEBHOOK]
    return unheard[:limit] if room == limit else own[:room] + deliveries[:limit]


def _is_due(job: Job, now: datetime) -> bool:
    return job.state is JobState.QUEUED and job.run_after <= now


def _is_stuck(job: Job, now: datetime) -> bool:
    return job.state is JobState.CLAIMED and job.lease_until is not None and job.lease_until < now


def _backlog(kind: str, of_kind: list[tuple[Job, bool]], *, now: datetime) -> Backlog:
    """The backlog of one kind.

    `of_kind` pairs each job with True if its tenant is active: a suspended one's are not late.
    """
    jobs = [job for job, _ in of_kind]
    due = [job for job, active in of_kind if active and _is_due(job, now)]
    stuck = sum(_is_stuck(job, now) for job in jobs)
    return Backlog(
        kind=kind,
        due=len(due),
        scheduled=sum(job.state is JobState.QUEUED for job in jobs) - len(due),
        running=sum(job.state is JobState.CLAIMED for job in jobs) - stuck,
        stuck=stuck,
        oldest_due=max((now - job.run_after for job in due), default=timedelta()),
    )
