"""The sweep: ends leases that have expired, and rings again for lost doorbells. Every worker runs it; none leads."""

from dataclasses import dataclass, field

import structlog

from app.domain.doorbells import LANE_OF_KIND, Ring
from app.domain.errors import Unavailable
from app.domain.ids import TenantId
from app.domain.jobs import AttemptOutcome
from app.ports.leases import Sweeps, SweptJob
from app.services.ringing import Ringer
from app.services.tenants import tenants_in_batches
from app.telemetry import Metrics, RepeatedEvents

log = structlog.get_logger()

TENANTS_AT_A_TIME = 500
EVERY_TENANT = 10_000_000
BUDGET = 5_000
"""Rings in one pass; the rest is left to the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeper:
    sweeps: Sweeps
    ringing: Ringer
    metrics: Metrics
    _repeated: RepeatedEvents = field(default_factory=RepeatedEvents)

    async def sweep(self, *, early: frozenset[str] | None = None, recognition: bool | None = None) -> int:
        """Make one pass over the tenants that the scout names. Returns the number of rings.

        `early` is for an idle worker with an empty queue: jobs of these kinds are rung however recently they were rung.
        `recognition` False leaves out the jobs that wait for a recognition slot.
        """
        rung = 0
        while rung < BUDGET:
            tenants = await self.sweeps.tenants_with_due_work(
                limit=TENANTS_AT_A_TIME, early=early, recognition=recognition
            )
            if not tenants:
                break
            # Spread over tenants, so that one with a long queue leaves the others their share.
            limit = max(1, (BUDGET - rung) // len(tenants))
            found = await self.sweeps.sweep(tenants, limit=limit, early=early, recognition=recognition)
            rung += await self._ring(found)
            # Work was named but none found: other sweepers hold those rows, and a repeat at once would only load them.
            if not found or early is not None or len(tenants) < TENANTS_AT_A_TIME:
                break
        return rung

    async def refill(self, tenant_id: TenantId) -> None:
        """Ring for a job that waits for a place, after a job of a tenant with `max_running` has ended."""
        try:
            await self._ring(await self.sweeps.sweep([tenant_id], limit=1, early=frozenset(LANE_OF_KIND)))
        except Unavailable as error:  # the sweep finds the free place as well, only later
            if self._repeated.due("refill_failed"):
                log.warning("refill_failed", tenant_id=tenant_id, reason=str(error))

    async def waiting_tenants(self, kinds: frozenset[str], *, recognition: bool | None) -> list[TenantId]:
        """Return tenants with due jobs of these kinds; `recognition` as for `sweep`, or True for only those jobs."""
        return await self.sweeps.tenants_with_due_work(limit=TENANTS_AT_A_TIME, early=kinds, recognition=recognition)

    async def next_for_recognition(self, tenant_id: TenantId, kinds: frozenset[str]) -> list[Ring]:
        """Return a job of the tenant that waits for a recognition slot, to be claimed by the caller; or none."""
        found = await self.sweeps.sweep([tenant_id], limit=1, early=kinds, recognition=True)
        # Jobs whose lease ran out are ended in the same pass, and rung for.
        await self._ring([swept for swept in found if swept.expired or swept.kind not in kinds])
        return [swept.ring for swept in found if not swept.expired and swept.kind in kinds]

    async def full_pass(self) -> int:
        """Sweep every tenant, due or not, and raise the alarm for jobs that the scout missed. Returns their number."""
        await self.sweep()
        missed = 0
        async for names in tenants_in_batches(self.sweeps, at_a_time=TENANTS_AT_A_TIME):
            found = await self.sweeps.sweep(names, limit=BUDGET // TENANTS_AT_A_TIME)
            missed += await self._unseen(found)
            await self._ring(found)
        if missed:
            self.metrics.scout_missed.inc(missed)
            log.error("scout_missed_jobs", count=missed)
        return missed

    async def _unseen(self, found: list[SweptJob]) -> int:
        """Count due jobs that the scout does not see. It is asked again, as jobs may have become due since."""
        if not found:
            return 0
        kinds = frozenset(swept.kind for swept in found)
        seen = set(await self.sweeps.tenants_with_due_work(limit=EVERY_TENANT, early=kinds))
        return sum(swept.due and swept.ring.tenant_id not in seen for swept in found)

    async def _ring(self, found: list[SweptJob]) -> int:
        for swept in found:
            if swept.expired:
                self.metrics.finished.labels(swept.kind, AttemptOutcome.EXPIRED).inc()
                log.warning("lease_expired", tenant_id=swept.ring.tenant_id, job_id=str(swept.ring.job_id))
        due = [swept for swept in found if swept.due]
        await self.ringing.ring((swept.kind, swept.ring) for swept in due if not swept.delay)
        for swept in due:
            if swept.delay:
                await self.ringing.ring([(swept.kind, swept.ring)], delay=swept.delay)
        self.metrics.sweep_rung.inc(len(due))
        return len(due)
