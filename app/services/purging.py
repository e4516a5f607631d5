"""Deletes documents and jobs beyond retention, blobs without a document, unfinished uploads and expired keys.

A blob is stored at most `ACCEPTED_WITHIN`, usually seconds, before its row. So one older than `ORPHAN_AFTER` that has
no row will never have one. Every worker purges; none leads, because two may delete the same thing without harm.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from datetime import datetime, timedelta
from typing import Self

import structlog

from app.domain.documents import ORPHAN_AFTER, DocumentCursor, document_of
from app.domain.errors import DairaError, NotFound, Unavailable
from app.domain.ids import DocumentId, TenantId
from app.domain.tenants import TenantState
from app.ports.blobs import InventoriedBlobs
from app.ports.database import Database
from app.ports.leases import Sweeps
from app.services.clocks import TOLERATED, ClockComparer, ClockReadings
from app.services.documents import DocumentService
from app.services.tenants import each_tenant
from app.telemetry import Metrics

log = structlog.get_logger()

AT_A_TIME = 500
"""Documents listed, or blobs looked up, in one transaction."""

JOBS_AT_MOST = 1_000_000
"""Jobs counted in a dry run."""

ORPHANS_AT_A_TIME = 10_000
"""Orphans of one tenant deleted in one purge; the next purge goes on."""

FEW = 20
"""Orphans that are deleted even if a tenant has fewer documents than orphans.

More of them are a sign of a database that is not this bucket's, was emptied or is being restored: keep the bytes.
"""

PATIENCE = timedelta(minutes=30)
"""Time for one tenant; the next purge goes on with it."""

FAULTS_IN_A_ROW = 5
"""Failing tenants after which the purge gives up: the fault is then not the tenants'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeReport:
    documents: int = 0
    """Documents beyond retention."""
    orphans: int = 0
    unfinished: int = 0
    keys: int = 0
    """Expired idempotency keys."""
    jobs: int = 0
    """Jobs without a document that ended longer ago than `job_retention`."""
    left: int = 0
    """Orphans that were not deleted because there are too many of them."""

    def __add__(self, other: Self) -> "PurgeReport":
        return PurgeReport(
            documents=self.documents + other.documents,
            orphans=self.orphans + other.orphans,
            unfinished=self.unfinished + other.unfinished,
            keys=self.keys + other.keys,
            jobs=self.jobs + other.jobs,
            left=self.left + other.left,
        )

    def __bool__(self) -> bool:
        return any(astuple(self))


@dataclass(slots=True, kw_only=True)
class _PurgeableBlobs:
    """Collects those blobs of a tenant that are older than `ORPHAN_AFTER`."""

    known: int = 0
    orphans: int = 0
    keys: list[str] = field(default_factory=list)
    """Keys of orphans, at most as many as one purge deletes."""

    def add(self, keys: dict[DocumentId, str], *, known: set[DocumentId]) -> None:
        found = [key for document_id, key in keys.items() if document_id not in known]
        self.known += len(known)
        self.orphans += len(found)
        self.keys += found[: ORPHANS_AT_A_TIME - len(self.keys)]

    @property
    def doubtful(self) -> bool:
        return self.orphans > max(FEW, self.known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purger:
    database: Database
    documents: DocumentService
    blobs: InventoriedBlobs
    sweeps: Sweeps
    clocks: ClockComparer
    metrics: Metrics
    retention: timedelta | None
    """None keeps documents for ever."""
    job_retention: timedelta | None
    """The retention of jobs without a document. None keeps them for ever."""
    tolerated: timedelta = TOLERATED
    """The difference of clocks beyond which nothing is purged."""

    async def purge(
        self,
        *,
        dry_run: bool = False,
        even_many: bool = False,
        told: Callable[[TenantId, PurgeReport], object] = lambda _tenant, _purged: None,
    ) -> PurgeReport:
        """Make one pass over all active tenants; `told` is called with each one's report. `even_many` ignores `FEW`.

        A tenant that fails does not stop the others. Raises Unavailable at the end if any failed, and at once if the
        blob store does not answer, clocks differ or `FAULTS_IN_A_ROW` tenants fail.
        """
        await self.blobs.ping()
        clocks = await self._clocks(dry_run=dry_run)
        total, failed, in_a_row = PurgeReport(), 0, 0
        async for tenant_id in each_tenant(self.sweeps):
            try:
                async with asyncio.timeout(PATIENCE.total_seconds()):
                    purged = await self._purge(tenant_id, clocks, dry_run=dry_run, even_many=even_many)
            except (DairaError, TimeoutError) as error:
                log.warning("purge_failed", tenant_id=tenant_id, reason=str(error) or "it took too long")
                failed, in_a_row = failed + 1, in_a_row + 1
                if in_a_row == FAULTS_IN_A_ROW:
                    raise Unavailable(
                        f"the purge gave up because {in_a_row} tenants failed in a row: {error}"
                    ) from error
            else:
                told(tenant_id, purged)
                total, in_a_row = total + purged, 0
        if failed:
            raise Unavailable(f"{failed} tenants could not be purged; the log says why (purge_failed)")
        return total

    async def _clocks(self, *, dry_run: bool) -> ClockReadings:
        """Read the clocks that all ages of this pass are counted by. Raises Unavailable if one of them is wrong."""
        clocks = await self.clocks.read()
        self.metrics.blob_clock_skew.set(clocks.blobs.ahead.total_seconds())
        if not dry_run and (faults := clocks.faults(tolerated=self.tolerated)):
            log.error("clocks_differ", faults=faults)
            raise Unavailable("; ".join(faults))
        return clocks

    async def _purge(
        self, tenant_id: TenantId, clocks: ClockReadings, *, dry_run: bool, even_many: bool
    ) -> PurgeReport:
        async with self.database.begin(tenant_id) as tx:
            tenant = await tx.tenant.get()
        if tenant is None or tenant.state is not TenantState.ACTIVE:
            return PurgeReport()
        documents = await self._retire(tenant_id, now=clocks.database.at, dry_run=dry_run)
        waste = clocks.blobs.at - ORPHAN_AFTER
        unfinished = await self.blobs.clear_unfinished(tenant_id, before=waste, dry_run=dry_run)
        found = await self._orphans(tenant_id, before=waste)
        if not dry_run:
            self.metrics.purge_expected.labels("orphan").inc(found.orphans)
        left = 0 if even_many or not found.doubtful else found.orphans
        orphans = 0 if left else await self._remove(found.keys, dry_run=dry_run)
        keys = 0 if dry_run else await self._expired_keys(tenant_id)
        jobs = await self._prune(tenant_id, dry_run=dry_run)
        purged = PurgeReport(
            documents=documents, orphans=orphans, unfinished=unfinished, keys=keys, jobs=jobs, left=left
        )
        self._report(tenant_id, purged, dry_run=dry_run)
        return purged

    async def _retire(self, tenant_id: TenantId, *, now: datetime, dry_run: bool) -> int:
        """Remove old documents and return their number.

        Each has its own transaction, as by DELETE: several in one could deadlock with a batch of settles.
        """
        if self.retention is None:
            return 0
        count = 0
        limit = now - self.retention
        before: DocumentCursor | None = None
        while True:
            async with self.database.begin(tenant_id) as tx:
                old = await tx.documents.newest(limit=AT_A_TIME, created_before=limit, before=before)
            if not dry_run:
                self.metrics.purge_expected.labels("document").inc(len(old))
            for document in old if not dry_run else []:
                with suppress(NotFound):  # another purge was faster
                    await self.documents.remove(tenant_id, document.id)
                self.metrics.purged.labels("document").inc()
            count += len(old)
            if len(old) < AT_A_TIME:
                return count
            before = DocumentCursor(created_at=old[-1].created_at, id=old[-1].id)

    async def _expired_keys(self, tenant_id: TenantId) -> int:
        count, removed = 0, AT_A_TIME
        while removed == AT_A_TIME:
            async with self.database.begin(tenant_id) as tx:
                removed = await tx.idempotency_keys.remove_expired(at_most=AT_A_TIME)
            count += removed
        return count

    async def _prune(self, tenant_id: TenantId, *, dry_run: bool) -> int:
        if self.job_retention is None:
            return 0
        at_a_time = JOBS_AT_MOST if dry_run else AT_A_TIME
        count = 0
        while True:
            async with self.database.begin(tenant_id) as tx:
                pruned = await tx.jobs.prune(older_than=self.job_retention, limit=at_a_time, dry_run=dry_run)
            count += pruned
            if pruned < at_a_time or dry_run:
                return count

    async def _orphans(self, tenant_id: TenantId, *, before: datetime) -> _PurgeableBlobs:
        found = _PurgeableBlobs()
        keys: dict[DocumentId, str] = {}
        async for key in self.blobs.keys(tenant_id, before=before):
            # A key of another form is no document's: leave it.
            if document_id := document_of(key):
                keys[document_id] = key
            if len(keys) == AT_A_TIME:
                found.add(keys, known=await self._known(tenant_id, keys))
                keys = {}
        found.add(keys, known=await self._known(tenant_id, keys))
        return found

    async def _known(self, tenant_id: TenantId, keys: dict[DocumentId, str]) -> set[DocumentId]:
        if not keys:
            return set()
        async with self.database.begin(tenant_id) as tx:
            return await tx.documents.known(list(keys))

    async def _remove(self, keys: list[str], *, dry_run: bool) -> int:
        for key in keys if not dry_run else []:
            await self.blobs.delete(key)
            self.metrics.purged.labels("orphan").inc()
        return len(keys)

    def _report(self, tenant_id: TenantId, purged: PurgeReport, *, dry_run: bool) -> None:
        if purged.left:
            log.error("orphans_left", tenant_id=tenant_id, count=purged.left)
        removed = {"document": purged.documents, "orphan": purged.orphans, "unfinished": purged.unfinished}
        removed["idempotency_key"] = purged.keys
        removed["job"] = purged.jobs
        if not dry_run and any(removed.values()):
            # Documents and orphans were counted one by one, because a tenant may fail midway.
            for label in ("unfinished", "idempotency_key", "job"):
                self.metrics.purge_expected.labels(label).inc(removed[label])
                self.metrics.purged.labels(label).inc(removed[label])
            log.info("tenant_purged", tenant_id=tenant_id, **removed)
