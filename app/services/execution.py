"""Answers a doorbell: clamp and claim, handler, settle.

The claim decides which worker runs the job. The fence decides whether its result counts.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

import structlog

from app.domain.doorbells import LANE_OF_KIND, TEXT_KIND, Ring
from app.domain.errors import AttemptOver, DocumentFault, Unavailable
from app.domain.ids import TenantId
from app.domain.job_errors import internal_error, is_documented, unavailable_error
from app.domain.jobs import CANCELLED, JobError, JobState, Progress
from app.domain.leases import ClaimedJob, ClaimResult, Lease, Settlement
from app.domain.outcomes import DeliveryRings, Done, Ending, Fail, Outcome, Release, Retry, Suspect, excused, settlement
from app.ports.database import Database
from app.ports.leases import Handler, Leases, ProgressReporter
from app.services.gates import Gates
from app.services.ringing import Ringer
from app.services.settling import SettleBatcher
from app.telemetry import Metrics, bind_events
from app.tracing import Attributes, NullSpans, Spans, trace_id

log = structlog.get_logger()

SETTLE_AGAIN = 0.5
"""Seconds between tries to settle while the database is away or refuses; the end of the lease ends them."""


class Interruption(StrEnum):
    """The reason why a handler was stopped before it had finished."""

    LEASE_LOST = "lease_lost"
    CANCELLED = "cancelled"
    STOPPING = "stopping"


class RefillCallback(Protocol):
    async def __call__(self, tenant_id: TenantId) -> None:
        """Ring for a waiting job of this tenant: one of its `max_running` places has become free."""
        ...


class LeaseHold(ProgressReporter, Protocol):
    """A claimed job's lease, renewed by heartbeats."""

    @property
    def interruption(self) -> Interruption | None: ...

    @property
    def progress(self) -> Progress | None:
        """The progress reported last."""
        ...

    def watch(self, work: asyncio.Task[object]) -> None:
        """Cancel this task when the lease is interrupted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    database: Database
    leases: Leases
    settling: SettleBatcher
    handlers: Mapping[str, Handler]
    ringing: Ringer
    refill: RefillCallback
    metrics: Metrics
    worker: str
    """The name under which jobs are claimed; only people read it."""
    lease: timedelta
    hurry: Callable[[TenantId], object] = lambda _: None
    """Called when a job of this tenant changes its state; wakes callers that wait in this process."""
    spans: Spans = field(default_factory=NullSpans)
    gates: Gates = field(default_factory=Gates)

    async def claim(
        self, rings: Sequence[Ring], *, kinds: frozenset[str], recognition: int | None = None
    ) -> list[ClaimResult]:
        """Claim the jobs of these rings.

        A ring whose job can't be claimed here needs no further work, apart from one that waits for recognition.
        """
        began = time.time_ns()
        claims = await self.leases.claim(
            rings, worker=self.worker, lease=self.lease, kinds=kinds, recognition=recognition
        )
        for outcome, count in Counter(claim.outcome for claim in claims).items():
            self.metrics.claims.labels(outcome).inc(count)
        jobs = [claim.job for claim in claims if claim.job is not None]
        for tenant_id in {job.lease.tenant_id for job in jobs}:
            self.hurry(tenant_id)
        for job in jobs:
            self.spans.past(
                "claim", parent=job.traceparent, began=began, ended=time.time_ns(), attributes=_attributes(job)
            )
        return claims

    async def run(self, job: ClaimedJob, hold: LeaseHold) -> None:
        """Run one attempt, from the handler's start to the settled row."""
        tenant_id, job_id, attempt = job.lease
        metrics = self.metrics.of_kind(job.kind)
        metrics.pickup_seconds.observe(job.waited.total_seconds())
        with self.spans.span(f"job {job.kind}", parent=job.traceparent, attributes=_attributes(job)) as span:
            trace = trace_id(span.traceparent)
            bind_events(tenant_id=tenant_id, job_id=str(job_id), attempt=attempt, kind=job.kind, trace_id=trace)
            started = time.monotonic()
            with self.spans.span("handler", parent=span.traceparent):
                ending = await self._work(job, hold)
            metrics.job_seconds.observe(time.monotonic() - started)
            outcome: str | None = None
            if hold.interruption is not Interruption.LEASE_LOST:
                with self.spans.span("settle", parent=span.traceparent):
                    outcome = await self._settle(job, ending, hold)
            if outcome is None:
                self.metrics.leases_lost.inc()
                log.warning("lease_lost")
            span.tell({"daira.outcome": outcome or "lease_lost"})

    async def _work(self, job: ClaimedJob, hold: LeaseHold) -> Ending:
        work = asyncio.ensure_future(self._judged(job, hold))
        hold.watch(work)
        try:
            return await work
        except asyncio.CancelledError:
            return _interrupted(hold.interruption)

    async def _judged(self, job: ClaimedJob, hold: LeaseHold) -> Ending:
        """Return the handler's outcome. A failure does not count if something that its lane depends on is down."""
        outcome = await self._handled(job, hold)
        if not isinstance(outcome, Suspect):
            return outcome
        lane = LANE_OF_KIND.get(job.kind)
        wait = None if lane is None else await self.gates.excuse(lane)
        return outcome.ending if wait is None or not outcome.excusable else excused(wait, jitter=_jitter())

    async def _handled(self, job: ClaimedJob, hold: LeaseHold) -> Outcome:
        try:
            return await self.handlers[job.kind].run(job, hold)
        except AttemptOver:
            # The lease is lost, which the settle finds and logs, or the document is gone, which cancels its jobs.
            return Fail(CANCELLED)
        except DocumentFault as fault:
            return Fail(_document_error(job.lease, fault))
        except Unavailable as away:
            log.warning("dependency_unavailable", reason=str(away))
            return Suspect(Retry(unavailable_error(job.lease, away)), excusable=away.excusable)
        except Exception as error:  # whatever a handler raises costs one attempt at most, never the worker
            log.warning("handler_failed", exc_info=error)
            return Suspect(Retry(internal_error(job.lease)))

    async def _settle(self, job: ClaimedJob, ending: Ending, hold: LeaseHold) -> str | None:
        """Settle and return the outcome, or None if the lease was lost.

        Tries again while the database is away: its restart must not cost a result that took minutes.
        """
        while hold.interruption is not Interruption.LEASE_LOST:
            end = settlement(job, ending, jitter=_jitter(), progress=hold.progress)
            try:
                woken = await self._write(end, ending)
            except _RefusedError as refused:
                log.warning("results_refused", exc_info=refused.__cause__)
                ending = Retry(internal_error(job.lease))
            except Exception as error:  # noqa: BLE001 - it may have been written: the fence decides the next try
                log.warning("settle_failed", reason=f"{type(error).__name__}: {error}")
                await asyncio.sleep(SETTLE_AGAIN)
            else:
                if woken is not None:
                    await self._settled(job, end, woken)
                    return end.outcome
                break
        self.metrics.fenced_writes.inc()
        return None

    async def _write(self, end: Settlement, ending: Ending) -> DeliveryRings | None:
        """Write the settlement and the results in one transaction. Returns None if the lease is lost."""
        if not isinstance(ending, Done) or ending.apply is None:
            settled = await self.settling.settle(end)
            return None if settled is None else settled.bells
        async with self.database.begin(end.lease.tenant_id) as tx:
            # Settle first: if the fence does not hold, no result may be written.
            settled = await tx.jobs.settle(end)
            if settled is None:
                return None
            try:
                return [*settled.bells, *(await ending.apply(tx) or [])]
            except Unavailable:
                raise
            except Exception as error:
                raise _RefusedError from error

    async def _settled(self, job: ClaimedJob, end: Settlement, woken: DeliveryRings) -> None:
        self.hurry(job.lease.tenant_id)
        self.metrics.of_kind(job.kind).finished[end.outcome].inc()
        log.info("job_settled", outcome=end.outcome, error=end.error and end.error.code)
        # A job that waits for recognition is not rung for: whoever frees a slot claims it.
        if end.state is JobState.QUEUED and not end.recognition:
            ring = Ring(job.lease.tenant_id, job.lease.job_id)
            await self.ringing.ring([(job.kind, ring)], delay=end.delay)
        await self.ringing.ring([*woken, *await self._left_waiting(job, end)])
        if job.capped:
            await self.refill(job.lease.tenant_id)

    async def _left_waiting(self, job: ClaimedJob, end: Settlement) -> DeliveryRings:
        """Wake jobs that waited for a text which now will not come, so that they fail instead of waiting on."""
        if job.kind != TEXT_KIND or job.document_id is None or end.state not in {JobState.FAILED, JobState.CANCELLED}:
            return []
        try:
            async with self.database.begin(job.lease.tenant_id) as tx:
                return await tx.jobs.wake(job.document_id)
        except Unavailable as error:  # they look for the text themselves, later
            log.warning("waiting_jobs_not_woken", reason=str(error))
            return []


def _jitter() -> float:
    return random.random()  # noqa: S311 - spreads retries, guards nothing


def _attributes(job: ClaimedJob) -> Attributes:
    tenant_id, job_id, attempt = job.lease
    return {"daira.tenant_id": tenant_id, "daira.job_id": str(job_id), "daira.kind": job.kind, "daira.attempt": attempt}


def _document_error(lease: Lease, fault: DocumentFault) -> JobError:
    """Return the fault as the job's error. A code that is not documented is an error of ours."""
    if is_documented(fault.code):
        return JobError(code=fault.code, message=str(fault))
    log.error("fault_undocumented", exc_info=fault)
    return internal_error(lease)


def _interrupted(why: Interruption | None) -> Ending:
    if why is None:
        # Counted as a failure: released at no cost, such a job would run for ever.
        return Retry(JobError(code="internal", message="the handler cancelled itself"))
    # The row carries the request to cancel, so the job ends as cancelled and not as failed. A stopping worker gives the
    # job back. A lost lease settles nothing, whatever stands here for it.
    return Fail(CANCELLED) if why is Interruption.CANCELLED else Release()


class _RefusedError(Exception):
    """The results could not be written, and the settlement was rolled back with them; the cause says why."""
