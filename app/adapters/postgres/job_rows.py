"""Rows of jobs and attempts, as the domain has them."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row, Select, and_, select

from app.adapters.postgres.tables import jobs, results
from app.domain.jobs import Attempt, AttemptOutcome, Job, JobError, JobState, Progress


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


def attempt_of(row: Row[tuple[object, ...]]) -> Attempt:
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
