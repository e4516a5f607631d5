"""What the store must hold by now, and whether its answers agree."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta

from app.domain.doorbells import Ring
from app.domain.ids import JobId, TenantId
from app.domain.jobs import Job, JobState, NewJob
from app.domain.leases import BeatResult, ClaimOutcome, ClaimResult, Lease, LeaseBeat, Settlement
from app.domain.outcomes import Ending
from app.ports.leases import SweptJob
from tests.conformance import job_model as model
from tests.conformance.job_model import Model, Span
from tests.conformance.job_moves import MANY
from tests.conformance.store_under_test import Seen
from tests.support.rig import LEASE


@dataclass(slots=True, kw_only=True)
class Ledger:
    """Told of each step's answers after it has looked at what the step left behind."""

    span: Span
    jobs: dict[JobId, Model] = field(default_factory=dict)
    suspended: set[TenantId] = field(default_factory=set)
    caps: dict[TenantId, int] = field(default_factory=dict)
    """How many jobs a tenant may run at the same time, where there is a limit."""
    seen: Mapping[JobId, Seen] = field(default_factory=dict)
    given: dict[JobId, list[int]] = field(default_factory=dict)
    """The tokens that workers were told are theirs."""

    def look(self, span: Span, seen: Mapping[JobId, Seen]) -> None:
        self.agrees()
        self.span, self.seen = span, seen

    def at(self, ring: Ring | Lease) -> Model | None:
        """What the tenant has by that id."""
        job = self.jobs.get(ring.job_id)
        return job if job and job.row.tenant_id == ring.tenant_id else None

    def holding(self, lease: Lease) -> Model | None:
        """The job, where the lease is that of its one holder."""
        job = self.at(lease)
        return job if job and job.lease == lease else None

    def duplicate(self, new: NewJob, tenant: TenantId) -> bool:
        key = (tenant, new.kind, new.dedup_key)
        live = [job.row for job in self.jobs.values() if not job.row.state.terminal]
        return new.dedup_key is not None and key in [(row.tenant_id, row.kind, row.dedup_key) for row in live]

    def enqueued(self, new: NewJob, tenant: TenantId, answer: Job | None) -> None:
        assert (answer is None) == self.duplicate(new, tenant)
        if answer is not None:
            now = self.span.moment(self.seen[new.id].row.created_at)
            self.jobs[new.id] = model.enqueued(new, tenant=tenant, now=now)
            self._says(answer)

    def claimed(self, claim: ClaimResult, *, worker: str, kinds: frozenset[str], contended: bool = False) -> None:
        """`contended`: somebody else was at the job at the same time, so it may have been found locked."""
        job = self.at(claim.ring)
        allowed = self._outcomes(job, kinds) | ({ClaimOutcome.MISSING_OR_LOCKED} if contended else set())
        assert claim.outcome in allowed
        row = self.seen[claim.ring.job_id].row if job else None
        if job and row and claim.outcome is ClaimOutcome.CLAIMED:
            now = self.span.moment(row.started_at)
            held = self.jobs[row.id] = model.claimed(job, worker=worker, now=now)
            waited, is_capped = now - job.row.run_after, row.tenant_id in self.caps
            assert claim.job == model.handed_out(held, waited=waited, capped=is_capped)
            self.given.setdefault(row.id, []).append(claim.job.lease.attempt)
            return
        assert claim.job is None
        if job and row and claim.outcome in {ClaimOutcome.SUSPENDED, ClaimOutcome.UNKNOWN_KIND}:
            self.jobs[row.id] = model.put_off(job, now=self.span.moment(row.run_after - model.PUT_OFF))
        if job and claim.outcome is ClaimOutcome.CAPPED:
            self.jobs[job.row.id] = model.capped(job, span=self.span)

    def beaten(self, pulse: LeaseBeat, beat: BeatResult) -> None:
        assert beat.lease == pulse.lease
        job = self.holding(pulse.lease)
        assert beat.held == (job is not None)
        if job:
            assert beat.cancel_requested == job.row.cancel_requested
            until = self.seen[job.row.id].row.lease_until
            now = self.span.moment(until and until - LEASE)
            self.jobs[job.row.id] = model.beaten(job, pulse, now=now)

    def settled(
        self, settlement: Settlement, ending: Ending, *, held: bool, committed: bool = True, result: object = None
    ) -> None:
        job = self.holding(settlement.lease)
        assert held == (job is not None)
        if job and committed:
            row = self.seen[job.row.id].row
            is_queued = model.next_state(job, ending) is JobState.QUEUED
            now = self.span.moment(row.run_after - settlement.delay if is_queued else row.finished_at)
            self.jobs[row.id] = model.settled(job, ending, settlement, now=now, result=result)

    def cancelled(self, ring: Ring, answer: Job | None) -> None:
        job = self.at(ring)
        assert (answer is None) == (job is None)
        if job and answer:
            is_queued = job.row.state is JobState.QUEUED
            now = self.span.moment(self.seen[ring.job_id].row.finished_at) if is_queued else self.span.since
            self.jobs[ring.job_id] = model.cancelled(job, now=now)
            self._says(answer)

    def swept(
        self, found: Sequence[SweptJob], tenants: Iterable[TenantId], *, limit: int, early: frozenset[str] | None
    ) -> None:
        """One pass: leases that ran out first, then the bells, among the jobs as they were before it."""
        assert max(Counter(swept.ring for swept in found).values(), default=1) == 1, "one job was found twice"
        named = [job for job in self.jobs.values() if job.row.tenant_id in set(tenants)]
        for tenant in set(tenants):
            rings = {swept.ring.job_id for swept in found if swept.ring.tenant_id == tenant and not swept.expired}
            jobs = [job for job in named if job.row.tenant_id == tenant]
            least, most = (min(limit, room) for room in self._room(tenant))
            self._rings_are_right(rings, jobs, least=least, most=most, early=early)
        lost = {swept.ring.job_id for swept in found if swept.expired}
        assert {job.row.id for job in named if self._is_lost(job)} <= lost, "a lease that ran out was left"
        assert lost <= {job.row.id for job in named if self._may_be_lost(job)}, "a lease that runs was ended"
        for swept in found:
            self._swept(swept)

    def scouted(self, found: Iterable[TenantId], *, early: frozenset[str] | None) -> None:
        jobs = self.jobs.values()
        unheard = {job.row.tenant_id for job in jobs if self._is_unheard(job, early)}
        perhaps = {job.row.tenant_id for job in jobs if self._may_be_lost(job) or self._may_be_unheard(job, early)}
        # A tenant at its cap waits for none of the caller's slots.
        full = {tenant for tenant in unheard if early is not None and not self._room(tenant)[0]}
        surely = {job.row.tenant_id for job in jobs if self._is_lost(job)} | (unheard - full)
        assert surely <= set(found) <= perhaps

    def agrees(self) -> None:
        """The store holds exactly what it must, of every tenant, down to the last column and entry."""
        assert self.seen.keys() == self.jobs.keys()
        for key, job in self.jobs.items():
            row, history = self.seen[key].row, self.seen[key].history
            wanted = {field.name: getattr(job.row, field.name) for field in fields(Job)}
            stored = {field.name: getattr(row, field.name) for field in fields(Job)}
            assert {name: stored[name] for name in stored if stored[name] != wanted[name]} == {}, job.row
            assert history == job.history

    def _says(self, answer: Job) -> None:
        """What a write answers is what the row is afterwards."""
        assert answer == self.jobs[answer.id].row

    def _outcomes(self, job: Model | None, kinds: frozenset[str]) -> set[ClaimOutcome]:
        if job is None:
            return {ClaimOutcome.MISSING_OR_LOCKED}
        tenant = job.row.tenant_id
        outcomes = model.claim_outcomes(job, suspended=tenant in self.suspended, kinds=kinds, span=self.span)
        least, most = self._room(tenant)
        if ClaimOutcome.CLAIMED in outcomes and least == 0:
            outcomes |= {ClaimOutcome.CAPPED}
        return outcomes if most else outcomes - {ClaimOutcome.CLAIMED}

    def _room(self, tenant: TenantId) -> tuple[int, int]:
        """How many jobs may begin, at least and at most: a lease may run out in this very moment."""
        ends = [
            job.row.lease_until for job in self.jobs.values() if job.row.tenant_id == tenant and job.row.lease_until
        ]
        cap = self.caps.get(tenant, MANY)
        running = [sum(moment <= end for end in ends) for moment in (self.span.since, self.span.until)]
        return max(0, cap - running[0]), max(0, cap - running[1])

    def _swept(self, swept: SweptJob) -> None:
        job = self.at(swept.ring)
        assert job is not None
        row = self.seen[job.row.id].row
        assert swept.kind == job.row.kind
        if not swept.expired:
            assert swept.due
            self.jobs[row.id] = model.rung(job, span=self.span)
            return
        now = self.span.moment(self.seen[row.id].history[-1].finished_at)
        self.jobs[row.id] = after = model.expired(job, now=now, due=row.run_after)
        assert swept.due == (after.row.state is JobState.QUEUED)
        assert swept.delay == (row.run_after - now if swept.due else timedelta())

    def _rings_are_right(
        self, rings: set[JobId], jobs: Sequence[Model], *, least: int, most: int, early: frozenset[str] | None
    ) -> None:
        unheard = [job for job in jobs if self._is_unheard(job, early)]
        assert rings <= {job.row.id for job in jobs if self._may_be_unheard(job, early)}, "a bell rang for nothing"
        assert min(len(unheard), least) <= len(rings) <= most, "so many bells are not what a pass rings"
        left = [job.ring_after.until for job in unheard if job.row.id not in rings]
        assert all(self.jobs[rung].ring_after.since <= waiting for rung in rings for waiting in left), "out of turn"

    def _is_lost(self, job: Model) -> bool:
        return job.row.lease_until is not None and job.row.lease_until < self.span.since

    def _may_be_lost(self, job: Model) -> bool:
        return job.row.lease_until is not None and job.row.lease_until < self.span.until

    def _is_unheard(self, job: Model, early: frozenset[str] | None) -> bool:
        """Due (not in this very moment, on which the stores differ), and to be rung for."""
        return (
            self._is_rung_for(job, early)
            and job.row.run_after < self.span.since
            and (early is not None or self.span.certainly_from(job.ring_after.until))
        )

    def _may_be_unheard(self, job: Model, early: frozenset[str] | None) -> bool:
        return (
            self._is_rung_for(job, early)
            and self.span.possibly_from(job.row.run_after)
            and (early is not None or self.span.possibly_from(job.ring_after.since))
        )

    def _is_rung_for(self, job: Model, early: frozenset[str] | None) -> bool:
        is_active = job.row.tenant_id not in self.suspended
        return is_active and job.row.state is JobState.QUEUED and (early is None or job.row.kind in early)
