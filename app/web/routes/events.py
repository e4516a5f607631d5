"""Routes of job events, sent as they happen: server-sent events."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from app.domain.changes import ChangeEvent, PositionEvent, ProgressEvent, StateEvent
from app.services.events.stream import EventStream
from app.web.callers import Reader, may_still_read
from app.web.dependencies import AJobId, TheEvents
from app.web.loop_accounts import paced
from app.web.schemas import JobBody, ProgressOfJob

router = APIRouter(tags=["events"])

RETRY = 2_000
"""Milliseconds before a client that lost its connection reconnects."""

LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", description="The last id received; the stream continues after it.")
]


async def _tenant_stream(
    request: Request, tenant_id: Reader, events: TheEvents, last: LastEventId = None
) -> AsyncIterator[EventStream | None]:
    may_go_on = partial(may_still_read, request)
    async with events.open(tenant_id, job_id=None, last=last, may_go_on=may_go_on) as stream:
        yield stream


async def _job_stream(
    request: Request,
    response: Response,
    tenant_id: Reader,
    job_id: AJobId,
    events: TheEvents,
    last: LastEventId = None,
) -> AsyncIterator[EventStream | None]:
    may_go_on = partial(may_still_read, request)
    async with events.open(tenant_id, job_id=job_id, last=last, may_go_on=may_go_on) as stream:
        if stream is None:
            # A status of 204 stops an EventSource from reconnecting.
            response.status_code = 204
        yield stream


@router.get("/v1/events", response_class=EventSourceResponse, response_description="The stream.")
async def follow_all_jobs(
    tenant_id: Reader,  # noqa: ARG001 - the caller is checked first
    stream: Annotated[EventStream, Depends(_tenant_stream)],
) -> AsyncIterator[ServerSentEvent]:
    """Stream `state` (a job as it is now) and `progress` of all jobs, as server-sent events.

    The stream begins with all jobs that are queued or claimed if it has no Last-Event-ID or an unknown one.
    """
    async for event in _sent(stream):
        yield event


@router.get(
    "/v1/jobs/{job_id}/events",
    response_class=EventSourceResponse,
    response_description="The stream.",
    responses={204: {"description": "The client has already received the job's end; it need not reconnect."}},
)
async def follow_job(
    tenant_id: Reader,  # noqa: ARG001 - the caller is checked before any id
    stream: Annotated[EventStream | None, Depends(_job_stream)],
) -> AsyncIterator[ServerSentEvent]:
    """Stream `state` (the job as it is now) and `progress` of one job until its end; 204 if the client has seen it."""
    if stream is not None:
        async for event in _sent(stream):
            yield event


async def _sent(stream: EventStream) -> AsyncIterator[ServerSentEvent]:
    yield ServerSentEvent(retry=RETRY)
    async for event in paced(_each_encoded(stream)):
        yield event


async def _each_encoded(stream: EventStream) -> AsyncIterator[ServerSentEvent]:
    async for event in stream.events():
        yield _encoded(event)


def _encoded(event: ChangeEvent) -> ServerSentEvent:
    match event:
        case StateEvent():
            return ServerSentEvent(event="state", data=JobBody.of(event.job), id=event.position)
        case ProgressEvent(progress=reached):
            body = ProgressOfJob(job_id=event.job_id, done=reached.done, total=reached.total, unit=reached.unit)
            return ServerSentEvent(event="progress", data=body)
        case PositionEvent():
            return ServerSentEvent(id=event.position)
