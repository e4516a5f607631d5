"""Jobs inside a clamped transaction: enqueue, read, cancel, and settle together with results."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, case, func, literal, select, text, update
from sqlalchemy.dialects.postgresql import INTERVAL, insert

from app.adapters.postgres.clamped import Clamped
from app.adapters.postgres.faults import known_faults
from app.adapters.postgres.leases import SETTLE, settle_arguments
from app.adapters.postgres.tables import job_attempts, jobs, results
from app.domain.doorbells import Ring
from app.domain.errors import Conflict
from app.domain.ids import DocumentId, JobId
from app.domain.jobs import (
    CANCELLED,
    FIRST_RING_GRACE,
    Attempt,
    AttemptOutcome,
    Job,
    JobError,
    JobState,
    NewJob,
    Progress,
)
from app.domain.lanes import NEED_TEXT
from app.domain.leases import Settlement
from app.domain.text import scrub_json

LIVE = text("dedup_key is not null and state in ('queued', 'claimed')")

LIVE_JOBS = "select daira.live_jobs($1, $2) as count"


class PostgresJobs:
    def __init__(self, clamped: Clamped) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def add(self, job: NewJob) -> Job | None:
        run_after = func.now() + literal(job.run_in, INTERVAL)
        statement = (
            insert(jobs)
            .values(
                tenant_id=self._tenant_id,
                id=job.id,
                kind=job.kind,
                document_id=job.document_id,
                dedup_key=job.dedup_key,
                priority=job.priority,
                payload=dict(job.payload),
                run_after=run_after,
                ring_after=run_after + literal(FIRST_RING_GRACE, INTERVAL),
                max_attempts=job.max_attempts,
                traceparent=job.traceparent,
            )
            .on_conflict_do_nothing(index_elements=["tenant_id", "kind", "dedup_key"], index_where=LIVE)
            .returning(jobs)
        )
        with known_faults():
            row = (await self._clamped.execute(statement)).one_or_none()
        return job_of(row, result=None) if row else None

    async def get(self, job_id: JobId) -> Job | None:
        found = await self._select(jobs.c.id == job_id, limit=1)
        return found[0] if found else None

    async def newest(
        self,
        *,
        document_ids: Sequence[DocumentId] | None = None,
        state: JobState | None = None,
        kind: str | None = None,
        limit: int | None = None,
        before: JobId | None = None,
    ) -> list[Job]:
        wanted: list[ColumnElement[bool]] = []
        if document_ids is not None:
            wanted.append(jobs.c.document_id.in_(document_ids))
        if state is not None:
            wanted.append(jobs.c.state == state)
        if kind is not None:
            wanted.append(jobs.c.kind == kind)
        if before is not None:
            wanted.append(jobs.c.id < before)
        return await self._select(*wanted, limit=limit)

    async def live(self, *, at_most: int) -> int:
        (row,) = await self._clamped.call(LIVE_JOBS, self._tenant_id, at_most)
        count: int = row["count"]
        return count

    async def attempts(self, job_id: JobId) -> list[Attempt]:
        c = job_attempts.c
        statement = select(job_attempts).where(c.tenant_id == self._tenant_id, c.job_id == job_id).order_by(c.attempt)
        return [_attempt(row) for row in await self._clamped.execute(statement)]

    async def cancel(self, job_id: JobId) -> Job | None:
        queued = jobs.c.state == JobState.QUEUED
        statement = (
            update(jobs)
            .where(self._own(job_id), jobs.c.state.in_([JobState.QUEUED, JobState.CLAIMED]))
            .values(
                cancel_requested=True,
                state=case((queued, literal(JobState.CANCELLED.value)), else_=jobs.c.state),
                changed=case((queued, func.pg_current_xact_id()), else_=jobs.c.changed),
                finished_at=case((queued, func.now()), else_=None),
                last_error=case(
                    (queued, literal(error_json(CANCELLED), jobs.c.last_error.type)), else_=jobs.c.last_error
                ),
            )
        )
        await self._clamped.execute(statement)
        return await self.get(job_id)

    async def wake(self, document_id: DocumentId) -> list[tuple[str, Ring]]:
        c = jobs.c
        # Passed over where locked: whoever settles holds one job of the document, and a removal takes all in order.
        waiting = (
            select(c.id)
            .where(
                c.tenant_id == self._tenant_id,
                c.document_id == document_id,
                c.state == JobState.QUEUED,
                c.attempts == 0,
                c.run_after > func.now(),
                c.kind.in_(NEED_TEXT),
            )
            .with_for_update(skip_locked=True)
        )
        statement = (
            update(jobs)
            .where(c.tenant_id == self._tenant_id, c.id.in_(waiting))
            .values(run_after=func.now(), ring_after=func.now() + literal(FIRST_RING_GRACE, INTERVAL), rings=0)
            .returning(c.kind, c.id)
        )
        return [(row.kind, Ring(self._tenant_id, row.id)) for row in await self._clamped.execute(statement)]

    async def settle(self, settlement: Settlement) -> bool:
        # The function would follow the lease to its own tenant, out of this transaction's clamp.
        if settlement.lease.tenant_id != self._tenant_id:
            return False
        rows = await self._clamped.call(SETTLE, *settle_arguments([settlement]))
        return bool(rows[0]["held"])

    async def save_result(self, job_id: JobId, result: object) -> None:
        statement = (
            insert(results)
            .values(tenant_id=self._tenant_id, job_id=job_id, data=scrub_json(result))
            .on_conflict_do_nothing()
            .returning(results.c.job_id)
        )
        with known_faults():
            saved = (await self._clamped.execute(statement)).one_or_none()
        if saved is None:
            raise Conflict(f"job {job_id} has a result already")

    async def _select(self, *wanted: ColumnElement[bool], limit: int | None) -> list[Job]:
        statement = (
            select_jobs()
            .where(jobs.c.tenant_id == self._tenant_id, *wanted)
            # Ids are UUIDv7: their order is that of creation.
            .order_by(jobs.c.id.desc())
            .limit(limit)
        )
        return [job_of(row, result=row.data) for row in await self._clamped.execute(statement)]

    def _own(self, job_id: JobId) -> ColumnElement[bool]:
        return and_(jobs.c.tenant_id == self._tenant_id, jobs.c.id == job_id)


def select_jobs() -> Select[Any]:
    """With their results, for `job_of`."""
    of_job = and_(results.c.tenant_id == jobs.c.tenant_id, results.c.job_id == jobs.c.id)
    return select(jobs, results.c.data).select_from(jobs.outerjoin(results, of_job))


def error_json(error: JobError) -> dict[str, str]:
    return {"code": error.code, "message": error.message}


def job_of(row: Row[Any], *, result: object) -> Job:
    return Job(
        id=row.id,
        tenant_id=row.tenant_id,
        kind=row.kind,
        state=JobState(row.state),
        document_id=row.document_id,
        payload=row.payload,
        dedup_key=row.dedup_key,
        priority=row.priority,
        attempts=row.attempts,
        failures=row.failures,
        expiries=row.expiries,
        releases=row.releases,
        max_attempts=row.max_attempts,
        cancel_requested=row.cancel_requested,
        progress=Progress(**row.progress) if row.progress else None,
        error=_error(row.last_error),
        result=result,
        traceparent=row.traceparent,
        run_after=row.run_after,
        created_at=row.created_at,
        claimed_by=row.claimed_by,
        lease_until=row.lease_until,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def _attempt(row: Row[tuple[object, ...]]) -> Attempt:
    return Attempt(
        job_id=row.job_id,
        attempt=row.attempt,
        worker=row.worker,
        started_at=row.started_at,
        finished_at=row.finished_at,
        outcome=AttemptOutcome(row.outcome),
        error=_error(row.error),
    )


def _error(stored: Mapping[str, str] | None) -> JobError | None:
    return JobError(code=stored["code"], message=stored["message"]) if stored else None
