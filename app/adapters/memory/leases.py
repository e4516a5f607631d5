"""Claim, beat and settle on the memory store, one tenant at a time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

from app.adapters.memory import transitions
from app.adapters.memory.store import JobRow, MemoryStore, Tables
from app.domain.doorbells import Ring
from app.domain.ids import TenantId
from app.domain.jobs import JobState
from app.domain.leases import Beat, Claim, ClaimedJob, ClaimOutcome, Lease, Pulse, Settled, Settlement
from app.domain.tenants import TenantState
from app.domain.text import scrub_progress
from app.domain.webhooks import KIND as WEBHOOK


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is the same for all doorbells of one claim."""

    worker: str
    lease: timedelta
    kinds: frozenset[str]


class MemoryLeases:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def claim(
        self, rings: Sequence[Ring], *, worker: str, lease: timedelta, kinds: frozenset[str]
    ) -> list[Claim]:
        terms = Terms(worker=worker, lease=lease, kinds=kinds)
        claims: list[Claim] = []
        for tenant, group in groupby(sorted(set(rings)), key=lambda ring: ring.tenant_id):
            claims += await self._claim_under(tenant, list(group), terms)
        return claims

    async def beat(self, pulses: Sequence[Pulse], *, lease: timedelta) -> list[Beat]:
        beats = []
        for pulse in pulses:
            async with self._store.writing(pulse.lease.tenant_id) as tables:
                beats.append(_beat(tables, pulse, lease_until=self._store.now() + lease))
        return beats

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled | None]:
        settled = []
        for settlement in settlements:
            async with self._store.writing(settlement.lease.tenant_id) as tables:
                settled.append(transitions.settle(tables, settlement, now=self._store.now()))
        return settled

    async def _claim_under(self, tenant: TenantId, rings: list[Ring], terms: Terms) -> list[Claim]:
        # A doorbell's tenant may be made up: it must leave no trace here, not even a lock.
        if self._store.tables(tenant).tenant is None:
            return [Claim(ring=ring, outcome=ClaimOutcome.MISSING_OR_LOCKED) for ring in rings]
        async with self._store.writing(tenant) as tables:
            return [_claim(tables, ring, terms, now=self._store.now()) for ring in rings]


def _claim(tables: Tables, ring: Ring, terms: Terms, *, now: datetime) -> Claim:
    row = tables.jobs.get(ring.job_id)
    if row is None:
        return Claim(ring=ring, outcome=ClaimOutcome.MISSING_OR_LOCKED)
    if row.job.state is not JobState.QUEUED:
        return Claim(ring=ring, outcome=_outcome_of(row.job.state))
    outcome = _judge(row, suspended=_is_suspended(tables), kinds=terms.kinds, now=now)
    # Deliveries are not the tenant's own work, and have no part in its cap.
    room = math.inf if row.job.kind == WEBHOOK else transitions.room(tables, now=now)
    if outcome is ClaimOutcome.CLAIMED and not room:
        outcome = ClaimOutcome.CAPPED
    tables.jobs[ring.job_id] = after = _after(row, outcome, terms, now=now)
    if outcome is ClaimOutcome.CANCELLED:
        transitions.announce(tables, after.job, now=now)
    waited, is_capped = now - row.job.run_after, room < math.inf
    job = _handed_out(after, waited=waited, capped=is_capped) if outcome is ClaimOutcome.CLAIMED else None
    return Claim(ring=ring, outcome=outcome, job=job)


def _outcome_of(state: JobState) -> ClaimOutcome:
    return ClaimOutcome.TAKEN if state is JobState.CLAIMED else ClaimOutcome(state.value)


def _is_suspended(tables: Tables) -> bool:
    return tables.tenant is not None and tables.tenant.state is TenantState.SUSPENDED


def _judge(row: JobRow, *, suspended: bool, kinds: frozenset[str], now: datetime) -> ClaimOutcome:
    """What becomes of a queued job."""
    if row.job.cancel_requested:
        return ClaimOutcome.CANCELLED
    if row.job.run_after > now:
        return ClaimOutcome.NOT_DUE
    if suspended:
        return ClaimOutcome.SUSPENDED
    return ClaimOutcome.CLAIMED if row.job.kind in kinds else ClaimOutcome.UNKNOWN_KIND


def _after(row: JobRow, outcome: ClaimOutcome, terms: Terms, *, now: datetime) -> JobRow:
    match outcome:
        case ClaimOutcome.CLAIMED:
            return transitions.claimed(row, worker=terms.worker, lease=terms.lease, now=now)
        case ClaimOutcome.CAPPED:
            return transitions.capped(row, now=now)
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


def _beat(tables: Tables, pulse: Pulse, *, lease_until: datetime) -> Beat:
    row = tables.jobs.get(pulse.lease.job_id)
    if row is None or not transitions.holds(row, pulse.lease):
        return Beat(lease=pulse.lease, held=False, cancel_requested=False)
    job = replace(row.job, lease_until=lease_until, progress=scrub_progress(pulse.progress) or row.job.progress)
    tables.jobs[job.id] = replace(row, job=job)
    return Beat(lease=pulse.lease, held=True, cancel_requested=job.cancel_requested)
