"""Routes of jobs: list, read, wait, cancel and retry."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from app.domain.errors import Conflict
from app.domain.ids import DocumentId
from app.domain.jobs import JobState
from app.web import pagination
from app.web.callers import JobWriter, JobWritingCaller, Reader
from app.web.dependencies import AJobId, TheJobs
from app.web.file_responses import NOT_MODIFIED, conditional_json
from app.web.openapi.headers import header_parameters
from app.web.pagination import TheListing
from app.web.refusals import refuses
from app.web.schemas import JobBody, JobList, JobWithHistory
from app.web.waiting import unless_disconnected, wait_preference

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("", response_model=JobList)
async def list_jobs(
    tenant_id: Reader,
    jobs: TheJobs,
    listing: TheListing,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    state: JobState | None = None,
    kind: Annotated[str | None, Query(max_length=64)] = None,
    document_id: UUID | None = None,
) -> Response:
    """List jobs, newest first."""
    found = await jobs.newest(
        tenant_id,
        limit=limit + 1,
        before=pagination.job_place(listing.cursor),
        state=state,
        kind=kind,
        document_id=None if document_id is None else DocumentId(document_id),
    )
    more, found = len(found) > limit, found[:limit]
    return await listing.answer(
        map(JobBody.of, found), following=pagination.pack_job_place(found[-1].id) if more else None
    )


@router.get(
    "/{job_id}",
    response_model=JobWithHistory,
    responses=NOT_MODIFIED,
    openapi_extra=header_parameters("Prefer", "If-None-Match"),
)
async def get_job(
    tenant_id: Reader,
    job_id: AJobId,
    jobs: TheJobs,
    request: Request,
    wait: Annotated[float | None, Query(ge=0, le=60, description="Seconds to wait for the job's end.")] = None,
) -> Response:
    """Return the job with its attempts; with `wait`, as soon as it has ended or the time is over.

    A client that disconnects while it waits does not cancel the job.
    """
    preference = wait_preference(request)
    at_most = preference.wait if wait is None else timedelta(seconds=wait)
    answering = jobs.wait(tenant_id, job_id, at_most=at_most)
    job, attempts = await (unless_disconnected(request, answering) if at_most else answering)
    applied = preference.headers if wait is None else {}
    return conditional_json(request, JobWithHistory.with_history(job, attempts), headers=applied)


@router.post("/{job_id}/cancel")
@refuses(Conflict)
async def cancel_job(tenant_id: JobWriter, job_id: AJobId, jobs: TheJobs) -> JobBody:
    """Cancel a queued job at once, a running one with its worker's next heartbeat."""
    return JobBody.of(await jobs.cancel(tenant_id, job_id))


@router.post("/{job_id}/retry")
@refuses(Conflict)
async def retry_job(caller: JobWritingCaller, job_id: AJobId, jobs: TheJobs) -> JobBody:
    """Queue a failed or cancelled job again. A webhook's delivery that is done can be sent again too."""
    return JobBody.of(await jobs.retry(caller.tenant_id, job_id, max_queued=caller.allowance.max_queued))
