"""Jobs: look, wait, cancel."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from app.domain.ids import DocumentId
from app.domain.jobs import JobState
from app.web import cursors
from app.web.callers import JobWriter, Reader
from app.web.dependencies import AJobId, TheJobs
from app.web.schemas import JobBody, JobList, JobWithHistory

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("")
async def list_jobs(
    tenant_id: Reader,
    jobs: TheJobs,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: str | None = None,
    state: JobState | None = None,
    kind: Annotated[str | None, Query(max_length=64)] = None,
    document_id: UUID | None = None,
) -> JobList:
    """Newest first."""
    found = await jobs.newest(
        tenant_id,
        limit=limit + 1,
        before=cursors.job(cursor),
        state=state,
        kind=kind,
        document_id=None if document_id is None else DocumentId(document_id),
    )
    more, found = len(found) > limit, found[:limit]
    return JobList(data=[JobBody.of(job) for job in found], next_cursor=cursors.of_job(found[-1].id) if more else None)


@router.get("/{job_id}")
async def get_job(
    tenant_id: Reader,
    job_id: AJobId,
    jobs: TheJobs,
    wait: Annotated[float, Query(ge=0, le=60, description="Seconds to wait for the job's end.")] = 0,
) -> JobWithHistory:
    """The job with its attempts; with `wait`, as soon as it has ended, or as it is when the time is over."""
    job, attempts = await jobs.wait(tenant_id, job_id, at_most=timedelta(seconds=wait))
    return JobWithHistory.with_history(job, attempts)


@router.post("/{job_id}/cancel")
async def cancel_job(tenant_id: JobWriter, job_id: AJobId, jobs: TheJobs) -> JobBody:
    """Cancel: a queued job at once, a running one with its worker's next beat."""
    return JobBody.of(await jobs.cancel(tenant_id, job_id))
