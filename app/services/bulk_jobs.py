"""Retries and cancels all jobs that match, for the operator: one tenant's clamp at a time, a bounded batch at a time.

It can be interrupted and repeated: a job that was retried or cancelled no longer matches.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from app.domain.errors import Conflict, NotFound
from app.domain.ids import JobId, TenantId
from app.domain.jobs import JobFilter, JobState
from app.ports.database import Database
from app.ports.leases import Sweeps
from app.services.jobs import JobService
from app.services.tenants import each_tenant

AT_A_TIME = 200
"""Ids read in one transaction."""

AT_ONCE = 4
"""Jobs changed at the same time, each in its own transaction, so that one that is refused undoes no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkProgress:
    """The work on one tenant's jobs so far."""

    tenant_id: TenantId
    matched: int = 0
    changed: int = 0
    """Jobs that were retried or cancelled."""

    @property
    def left_out(self) -> int:
        """The number of jobs with an equal live one, or that changed meanwhile."""
        return self.matched - self.changed


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkJobs:
    database: Database
    sweeps: Sweeps
    jobs: JobService

    async def count(self, tenant_id: TenantId | None, wanted: JobFilter) -> AsyncIterator[BulkProgress]:
        """Yield the number of jobs that match, for each tenant that has some."""
        async for tenant in self._tenants(tenant_id):
            matched = 0
            async for ids in self._batches(tenant, wanted):
                matched += len(ids)
            if matched:
                yield BulkProgress(tenant_id=tenant, matched=matched)

    async def retry(self, tenant_id: TenantId | None, wanted: JobFilter) -> AsyncIterator[BulkProgress]:
        """Queue the jobs that match again, as their tenants could, but beyond limits. Yield after each batch."""

        async def retry(tenant: TenantId, job_id: JobId) -> bool:
            await self.jobs.retry(tenant, job_id, max_queued=None)
            return True

        async for progress in self._change(tenant_id, wanted, retry):
            yield progress

    async def cancel(self, tenant_id: TenantId | None, wanted: JobFilter) -> AsyncIterator[BulkProgress]:
        """Cancel the queued jobs that match, and ask the claimed ones to stop. Yield after each batch."""

        async def cancel(tenant: TenantId, job_id: JobId) -> bool:
            return (await self.jobs.cancel(tenant, job_id)).state in {JobState.CANCELLED, JobState.CLAIMED}

        async for progress in self._change(tenant_id, wanted, cancel):
            yield progress

    async def _change(
        self, tenant_id: TenantId | None, wanted: JobFilter, change: Callable[[TenantId, JobId], Awaitable[bool]]
    ) -> AsyncIterator[BulkProgress]:
        turns = asyncio.Semaphore(AT_ONCE)

        async def changed(tenant: TenantId, job_id: JobId) -> bool:
            async with turns:
                try:
                    return await change(tenant, job_id)
                except (Conflict, NotFound):
                    return False

        async for tenant in self._tenants(tenant_id):
            matched = done = 0
            async for ids in self._batches(tenant, wanted):
                matched += len(ids)
                done += sum(await asyncio.gather(*(changed(tenant, job_id) for job_id in ids)))
                yield BulkProgress(tenant_id=tenant, matched=matched, changed=done)

    async def _tenants(self, tenant_id: TenantId | None) -> AsyncIterator[TenantId]:
        if tenant_id is None:
            async for each in each_tenant(self.sweeps):
                yield each
            return
        async with self.database.begin(tenant_id) as tx:
            if await tx.tenant.get() is None:
                raise NotFound(f"there is no tenant {tenant_id}")
        yield tenant_id

    async def _batches(self, tenant_id: TenantId, wanted: JobFilter) -> AsyncIterator[list[JobId]]:
        """Yield ids in their order, so that a job that fails again meanwhile is not visited twice."""
        last: JobId | None = None
        while True:
            async with self.database.begin(tenant_id) as tx:
                ids = await tx.jobs.matching(wanted, after=last, limit=AT_A_TIME)
            if not ids:
                return
            last = ids[-1]
            yield ids
