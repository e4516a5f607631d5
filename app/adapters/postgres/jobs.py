"""Jobs inside a clamped transaction: enqueue, read, cancel and settle together with results.

Also rows as domain objects.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal,
    null,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import INTERVAL, insert

from app.adapters.postgres.clamped import ClampedConnection, known_faults
from app.adapters.postgres.leases import SETTLE, delivery_bells, settle_arguments
from app.adapters.postgres.stored import known_name, stored_object, stored_value
from app.adapters.postgres.tables import answers, job_attempts, jobs, results
from app.domain.doorbells import NEED_TEXT, Ring
from app.domain.errors import Conflict
from app.domain.ids import DocumentId, JobId
from app.domain.jobs import (
    CANCELLED,
    FIRST_RING_GRACE,
    Attempt,
    AttemptOutcome,
    Job,
    JobError,
    JobFilter,
    JobState,
    NewJob,
    Progress,
)
from app.domain.leases import SettledAttempt, Settlement
from app.domain.outcomes import DeliveryRings
from app.domain.text import scrub_json
from app.domain.webhooks import KIND as WEBHOOK


def select_jobs() -> Select[Any]:
    """Select jobs with their results, for `job_of`."""
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
        payload=stored_object(row.payload),
        dedup_key=row.dedup_key,
        priority=row.priority,
        attempts=row.attempts,
        failures=row.failures,
        expiries=row.expiries,
        releases=row.releases,
        max_attempts=row.max_attempts,
        cancel_requested=row.cancel_requested,
        progress=stored_value(Progress, row.progress),
        error=stored_error(row.last_error),
        result=result,
        traceparent=row.traceparent,
        run_after=row.run_after,
        created_at=row.created_at,
        claimed_by=row.claimed_by,
        lease_until=row.lease_until,
        started_at=row.started_at,
        finished_at=row.finished_at,
        recognition=row.recognition,
        worked=row.worked,
    )


def attempt_of(row: Row[tuple[object, ...]]) -> Attempt:
    return Attempt(
        job_id=row.job_id,
        attempt=row.attempt,
        worker=row.worker,
        started_at=row.started_at,
        finished_at=row.finished_at,
        outcome=known_name(AttemptOutcome, row.outcome, otherwise=AttemptOutcome.RELEASE),
        error=stored_error(row.error),
    )


def stored_error(stored: object) -> JobError | None:
    return stored_value(JobError, stored, code="internal", message="")


LIVE_STATES = (JobState.QUEUED, JobState.CLAIMED)
LIVE = text("dedup_key is not null and state in ('queued', 'claimed')")

DUE = func.now() + bindparam("run_in", type_=INTERVAL)

ADD = (
    insert(jobs)
    .values(run_after=DUE, ring_after=DUE + literal(FIRST_RING_GRACE, INTERVAL))
    .on_conflict_do_nothing(index_elements=["tenant_id", "kind", "dedup_key"], index_where=LIVE)
    .returning(jobs)
)

GET = select_jobs().where(jobs.c.tenant_id == bindparam("tenant"), jobs.c.id == bindparam("job"))

ATTEMPTS = (
    select(job_attempts)
    .where(job_attempts.c.tenant_id == bindparam("tenant"), job_attempts.c.job_id == bindparam("job"))
    .order_by(job_attempts.c.attempt)
)

ANNOUNCE = "select delivery_id from daira.announce($1, $2)"

LIVE_JOBS = "select daira.live_jobs($1, $2) as count"


class PostgresJobs:
    def __init__(self, clamped: ClampedConnection) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def add(self, job: NewJob) -> Job | None:
        values = {
            "tenant_id": self._tenant_id,
            "id": job.id,
            "kind": job.kind,
            "document_id": job.document_id,
            "dedup_key": job.dedup_key,
            "priority": job.priority,
            "payload": dict(job.payload),
            "run_in": job.run_in,
            "max_attempts": job.max_attempts,
            "traceparent": job.traceparent,
            "webhook_id": job.webhook_id,
        }
        with known_faults():
            row = (await self._clamped.execute(ADD, values)).one_or_none()
        return job_of(row, result=None) if row else None

    async def get(self, job_id: JobId) -> Job | None:
        row = (await self._clamped.execute(GET, self._named(job_id))).one_or_none()
        return job_of(row, result=row.data) if row else None

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
        return await self.select(*wanted, limit=limit)

    async def select(self, *wanted: ColumnElement[bool], limit: int | None) -> list[Job]:
        statement = (
            select_jobs()
            .where(jobs.c.tenant_id == self._tenant_id, *wanted)
            # Ids are UUIDv7, so their order is the order of creation.
            .order_by(jobs.c.id.desc())
            .limit(limit)
        )
        return [job_of(row, result=row.data) for row in await self._clamped.execute(statement)]

    async def of_documents(
        self, document_ids: Sequence[DocumentId], *, each: int, kind: str | None = None
    ) -> list[Job]:
        c = jobs.c
        order = (c.state.in_(LIVE_STATES).desc(), c.id.desc())
        number = func.row_number().over(partition_by=c.document_id, order_by=order).label("number")
        of_them = and_(c.tenant_id == self._tenant_id, c.document_id.in_(document_ids))
        numbered = select(c.id, number).where(of_them, *([] if kind is None else [c.kind == kind])).subquery()
        chosen = select(numbered.c.id).where(numbered.c.number <= each)
        return await self.select(c.id.in_(chosen), limit=None)

    async def live_equal(self, *, kind: str, dedup_key: str) -> Job | None:
        equal = (jobs.c.kind == kind, jobs.c.dedup_key == dedup_key, jobs.c.state.in_(LIVE_STATES))
        return next(iter(await self.select(*equal, limit=1)), None)

    async def matching(self, wanted: JobFilter, *, after: JobId | None = None, limit: int) -> list[JobId]:
        c = jobs.c
        age = func.now() - func.coalesce(c.finished_at, c.created_at)
        conditions: list[ColumnElement[bool]] = [c.tenant_id == self._tenant_id, c.state.in_(wanted.states)]
        if wanted.kinds:
            conditions.append(c.kind.in_(wanted.kinds))
        if wanted.codes:
            conditions.append(c.last_error["code"].astext.in_(wanted.codes))
        if wanted.since is not None:
            conditions.append(age <= literal(wanted.since, INTERVAL))
        if wanted.until is not None:
            conditions.append(age >= literal(wanted.until, INTERVAL))
        if after is not None:
            conditions.append(c.id > after)
        found = await self._clamped.execute(select(c.id).where(*conditions).order_by(c.id).limit(limit))
        return list(found.scalars())

    async def live(self, *, at_most: int) -> int:
        (row,) = await self._clamped.call(LIVE_JOBS, self._tenant_id, at_most)
        count: int = row["count"]
        return count

    async def attempts(self, job_id: JobId) -> list[Attempt]:
        return [attempt_of(row) for row in await self._clamped.execute(ATTEMPTS, self._named(job_id))]

    async def cancel(self, job_id: JobId) -> tuple[Job, DeliveryRings] | None:
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
            .returning(jobs.c.state)
        )
        state = (await self._clamped.execute(statement)).scalar_one_or_none()
        bells = await self._announce(job_id) if state == JobState.CANCELLED else []
        job = await self.get(job_id)
        return None if job is None else (job, bells)

    async def retry(self, job_id: JobId, *, states: Collection[JobState]) -> Job | None:
        statement = (
            update(jobs)
            .where(self._own(job_id), jobs.c.state.in_(states))
            .values(
                state=JobState.QUEUED,
                changed=func.pg_current_xact_id(),
                failures=0,
                expiries=0,
                worked=timedelta(),
                cancel_requested=False,
                last_error=null(),
                progress=null(),
                run_after=func.now(),
                ring_after=func.now() + literal(FIRST_RING_GRACE, INTERVAL),
                rings=0,
                finished_at=null(),
            )
            .returning(jobs)
        )
        with known_faults():
            row = (await self._clamped.execute(statement)).one_or_none()
        if row is None:
            return None
        for table in (results, answers):
            of_job = and_(table.c.tenant_id == self._tenant_id, table.c.job_id == job_id)
            await self._clamped.execute(delete(table).where(of_job))
        return job_of(row, result=None)

    async def prune(self, *, older_than: timedelta, limit: int, dry_run: bool = False) -> int:
        c = jobs.c
        ago = func.now() - literal(older_than, INTERVAL)
        ended = c.state.in_([state for state in JobState if state.terminal])
        old = (
            select(c.id)
            .where(c.tenant_id == self._tenant_id, c.document_id.is_(None), ended, c.finished_at < ago)
            .limit(limit)
        )
        if dry_run:
            count: int = (await self._clamped.execute(select(func.count()).select_from(old.subquery()))).scalar_one()
            return count
        # As a CTE it is executed once. As part of the condition it may be executed repeatedly, and exceed the limit.
        unlocked = old.with_for_update(skip_locked=True).cte("unlocked")
        removal = delete(jobs).where(c.tenant_id == self._tenant_id, c.id.in_(select(unlocked.c.id)))
        return (await self._clamped.execute(removal)).rowcount

    async def wake(self, document_id: DocumentId) -> list[tuple[str, Ring]]:
        c = jobs.c
        # Locked jobs are skipped: a settle holds one job of the document, and a removal locks all of them in order.
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

    async def settle(self, settlement: Settlement) -> SettledAttempt | None:
        # The function would use the lease's own tenant, outside of this transaction's clamp.
        if settlement.lease.tenant_id != self._tenant_id:
            return None
        (row,) = await self._clamped.call(SETTLE, *settle_arguments([settlement]))
        return SettledAttempt(bells=delivery_bells(row)) if row["held"] else None

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

    async def _announce(self, job_id: JobId) -> DeliveryRings:
        rows = await self._clamped.call(ANNOUNCE, self._tenant_id, [job_id])
        return [(WEBHOOK, Ring(self._tenant_id, row["delivery_id"])) for row in rows]

    def _named(self, job_id: JobId) -> dict[str, object]:
        return {"tenant": self._tenant_id, "job": job_id}

    def _own(self, job_id: JobId) -> ColumnElement[bool]:
        return and_(jobs.c.tenant_id == self._tenant_id, jobs.c.id == job_id)
