"""Jobs in the memory store, as a transaction sees them."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta

from app.adapters.memory import transitions
from app.adapters.memory.store import Session, Tables
from app.domain.doorbells import Ring
from app.domain.errors import Conflict, NotFound
from app.domain.ids import DocumentId, JobId
from app.domain.jobs import EQUAL_IS_LIVE, Attempt, Job, JobState, NewJob
from app.domain.lanes import NEED_TEXT
from app.domain.leases import Settled, Settlement
from app.domain.outcomes import Woken
from app.domain.text import scrub_json
from app.domain.webhooks import KIND as WEBHOOK


class MemoryJobs:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, job: NewJob) -> Job | None:
        tables = await self._session.writing()
        tables.require_tenant()
        if job.document_id is not None and job.document_id not in tables.documents:
            raise NotFound(f"there is no document {job.document_id}")
        row = transitions.queued(job, tenant=self._session.tenant_id, now=self._session.now())
        if _is_duplicate(tables, row.job):
            return None
        if job.id in tables.jobs:
            raise Conflict(f"job {job.id} exists already")
        tables.jobs[job.id] = row
        return transitions.copied(row.job)

    async def get(self, job_id: JobId) -> Job | None:
        row = self._session.reading().jobs.get(job_id)
        return None if row is None else transitions.copied(row.job)

    async def newest(
        self,
        *,
        document_ids: Sequence[DocumentId] | None = None,
        state: JobState | None = None,
        kind: str | None = None,
        limit: int | None = None,
        before: JobId | None = None,
    ) -> list[Job]:
        jobs = (row.job for row in self._session.reading().jobs.values())
        found = [
            transitions.copied(job)
            for job in jobs
            if (document_ids is None or job.document_id in document_ids)
            and state in {None, job.state}
            and kind in {None, job.kind}
            and (before is None or job.id < before)
        ]
        return sorted(found, key=lambda job: job.id, reverse=True)[:limit]

    async def live(self, *, at_most: int) -> int:
        rows = self._session.reading().jobs.values()
        return min(at_most, sum(not row.job.state.terminal and row.job.kind != WEBHOOK for row in rows))

    async def attempts(self, job_id: JobId) -> list[Attempt]:
        return list(self._session.reading().attempts.get(job_id, ()))

    async def cancel(self, job_id: JobId) -> tuple[Job, Woken] | None:
        tables, now = await self._session.writing(), self._session.now()
        row = tables.jobs.get(job_id)
        if row is None:
            return None
        bells: Woken = []
        if row.job.state is JobState.QUEUED:
            row = transitions.cancelled(row, now=now)
            bells = transitions.announce(tables, row.job, now=now)
        elif row.job.state is JobState.CLAIMED:
            row = replace(row, job=replace(row.job, cancel_requested=True))
        tables.jobs[job_id] = row
        return transitions.copied(row.job), bells

    async def retry(self, job_id: JobId, *, states: Collection[JobState]) -> Job | None:
        tables = await self._session.writing()
        row = tables.jobs.get(job_id)
        if row is None or row.job.state not in states:
            return None
        if _is_duplicate(tables, row.job):
            raise Conflict(EQUAL_IS_LIVE)
        tables.answers.pop(job_id, None)
        tables.jobs[job_id] = row = transitions.retried(row, now=self._session.now())
        return transitions.copied(row.job)

    async def prune(self, *, older_than: timedelta, limit: int, dry_run: bool = False) -> int:
        tables, before = await self._session.writing(), self._session.now() - older_than
        old = [
            row.job.id
            for row in tables.jobs.values()
            if row.job.document_id is None and row.job.finished_at is not None and row.job.finished_at < before
        ][:limit]
        for job_id in old if not dry_run else []:
            del tables.jobs[job_id]
            tables.attempts.pop(job_id, None)
        return len(old)

    async def wake(self, document_id: DocumentId) -> list[tuple[str, Ring]]:
        jobs, now = (await self._session.writing()).jobs, self._session.now()
        waiting = [
            row
            for row in jobs.values()
            if row.job.document_id == document_id
            and row.job.state is JobState.QUEUED
            and not row.job.attempts
            and row.job.run_after > now
            and row.job.kind in NEED_TEXT
        ]
        for row in waiting:
            jobs[row.job.id] = transitions.woken(row, now=now)
        return [(row.job.kind, Ring(self._session.tenant_id, row.job.id)) for row in waiting]

    async def settle(self, settlement: Settlement) -> Settled | None:
        tables = await self._session.writing()
        if settlement.lease.tenant_id != self._session.tenant_id:
            return None
        return transitions.settle(tables, settlement, now=self._session.now())

    async def save_result(self, job_id: JobId, result: object) -> None:
        jobs = (await self._session.writing()).jobs
        row = jobs.get(job_id)
        if row is None:
            raise NotFound(f"there is no job {job_id}")
        if row.has_result:
            raise Conflict(f"job {job_id} has a result already")
        jobs[job_id] = replace(row, has_result=True, job=replace(row.job, result=scrub_json(result)))


def _is_duplicate(tables: Tables, job: Job) -> bool:
    return job.dedup_key is not None and any(
        not row.job.state.terminal and (row.job.kind, row.job.dedup_key) == (job.kind, job.dedup_key)
        for row in tables.jobs.values()
    )
