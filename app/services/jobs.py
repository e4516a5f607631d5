"""Asking for jobs, waiting for them, cancelling and retrying them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from app.domain.doorbells import NEED_TEXT, TEXT, Ring
from app.domain.errors import Conflict, NotFound, Unavailable
from app.domain.idempotency import IdempotencyKey
from app.domain.ids import DocumentId, JobId, TenantId
from app.domain.jobs import Attempt, Job, JobState
from app.domain.webhooks import KIND as WEBHOOK
from app.ports.database import Database, Tx
from app.services import idempotency
from app.services.documents import DocumentListing, existing
from app.services.events.follower import Follower
from app.services.events.watcher import ChangePoller
from app.services.limits import refuse_beyond
from app.services.ringing import Ringer
from app.services.uploads import JobRequest, check_kinds, check_languages, new_job


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedJob:
    job: Job
    new: bool
    """Made by this request; an equal one was not there."""
    replayed: bool = False
    """The request had been done before, and nothing was done now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobService:
    database: Database
    ringing: Ringer
    languages: Callable[[], frozenset[str]]
    llm: bool
    """Whether a language model is set up."""
    watching: ChangePoller
    stopping: asyncio.Event
    """Set when the service is told to stop: who waits is answered with the job as it is."""

    async def get(self, tenant_id: TenantId, job_id: JobId) -> tuple[Job, list[Attempt]]:
        async with self.database.begin(tenant_id) as tx:
            job = await tx.jobs.get(job_id)
            if job is None:
                raise NotFound("there is no such job")
            return job, await tx.jobs.attempts(job_id)

    async def wait(self, tenant_id: TenantId, job_id: JobId, *, at_most: timedelta) -> tuple[Job, list[Attempt]]:
        """The job as soon as it has ended, or as it is when the time is over. Holds no connection while waiting."""
        deadline = monotonic() + at_most.total_seconds()
        job, attempts = await self.get(tenant_id, job_id)
        if job.state.terminal or not at_most or self.stopping.is_set():
            return job, attempts
        async with self.watching.follow(tenant_id, job_id) as follower:
            # Read again when it is followed: what happened before that is told by nobody.
            await follower.ready(at_most=deadline - monotonic(), stopping=self.stopping)
            while True:
                job, attempts = await self.get(tenant_id, job_id)
                left = deadline - monotonic()
                if job.state.terminal or left <= 0 or self.stopping.is_set():
                    return job, attempts
                await self._until_news_of_an_end(follower, deadline=deadline)

    async def wait_for_all(self, jobs: Sequence[Job], *, at_most: timedelta) -> list[Job]:
        """As soon as all have ended, or as they are when the time is over; as given, where that can't be read."""
        deadline = monotonic() + at_most.total_seconds()
        waited: list[Job] = []
        for job in jobs:
            left = timedelta(seconds=max(0, deadline - monotonic()))
            try:
                waited.append((await self.wait(job.tenant_id, job.id, at_most=left))[0])
            except (NotFound, Unavailable):
                waited.append(job)
        return waited

    async def wait_for_document(self, accepted: DocumentListing, *, at_most: timedelta) -> DocumentListing:
        """The document as it is when all its jobs have ended, or the time is over; as given, where it is gone then."""
        await self.wait_for_all(accepted.jobs, at_most=at_most)
        document = accepted.document
        try:
            async with self.database.begin(document.tenant_id) as tx:
                now = await existing(tx, document.id)
                return DocumentListing(document=now, jobs=await tx.jobs.newest(document_ids=[document.id]))
        except (NotFound, Unavailable):  # what was accepted is never answered as a failure
            return accepted

    async def _until_news_of_an_end(self, follower: Follower, *, deadline: float) -> None:
        while heard := await follower.listen(at_most=deadline - monotonic(), stopping=self.stopping):
            if heard.look or heard.missed or heard.since is None or any(job.state.terminal for job in heard.jobs):
                return

    async def newest(
        self,
        tenant_id: TenantId,
        *,
        limit: int,
        before: JobId | None = None,
        state: JobState | None = None,
        kind: str | None = None,
        document_id: DocumentId | None = None,
    ) -> list[Job]:
        async with self.database.begin(tenant_id) as tx:
            return await tx.jobs.newest(
                limit=limit,
                before=before,
                state=state,
                kind=kind,
                document_ids=None if document_id is None else [document_id],
            )

    async def request(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        request: JobRequest,
        *,
        max_queued: int,
        once: IdempotencyKey | None = None,
    ) -> RequestedJob:
        """An equal job that is queued or claimed already is answered instead; and the same request is done once.

        Raises TooMany where the tenant has no room for another, LlmNotConfigured where nobody could do it.
        """
        check_kinds([request], llm=self.llm)
        check_languages(None, [request], installed=self.languages())
        parts = {"kind": request.kind, "payload": request.payload}
        async with self.database.begin(tenant_id) as tx:
            while earlier := await idempotency.earlier(tx, once, parts):
                if known := await tx.jobs.get(JobId(earlier.resource_id)):
                    return RequestedJob(job=known, new=earlier.made, replayed=True)
                await idempotency.gone(tx, once)
            requested, waits = await _enter(tx, document_id, request)
            job, new = requested.job, requested.new
            await idempotency.answer(tx, once, resource_id=job.id, made=new, document_id=document_id)
            if new:
                await refuse_beyond(max_queued, tx)
        if waits:
            await self._wake_if_over(tenant_id, document_id)
        elif new:
            await self.ringing.ring([(job.kind, Ring(tenant_id, job.id))])
        return requested

    async def cancel(self, tenant_id: TenantId, job_id: JobId) -> Job:
        """Raises Conflict when it has ended already, unless by an earlier cancel."""
        async with self.database.begin(tenant_id) as tx:
            cancelled = await tx.jobs.cancel(job_id)
            if cancelled is None:
                raise NotFound("there is no such job")
            job, bells = cancelled
            woken = await tx.jobs.wake(job.document_id) if _left_no_text(job) and job.document_id else []
        self.watching.hurry(tenant_id)
        await self.ringing.ring([*bells, *woken])
        if job.state in {JobState.DONE, JobState.FAILED}:
            raise Conflict(f"the job has ended already: it is {job.state}")
        return job

    async def retry(self, tenant_id: TenantId, job_id: JobId, *, max_queued: int) -> Job:
        """Queue an ended job again, as the same job: what it has drafted is kept, what it may spend is as at first.

        Raises Conflict unless it has failed or was cancelled, or is a delivery, which may be sent again at any time;
        and while an equal job is queued or claimed. TooMany and LlmNotConfigured as `request` does.
        """
        async with self.database.begin(tenant_id) as tx:
            job = await tx.jobs.get(job_id)
            if job is None:
                raise NotFound("there is no such job")
            check_kinds([JobRequest(kind=job.kind, payload=job.payload)], llm=self.llm)
            _refuse_to_retry(job, equal=await _live_equal(tx, job))
            retried = await tx.jobs.retry(job_id, states=_retryable(job))
            if retried is None:
                raise Conflict("the job has changed just now: look at it again")
            await refuse_beyond(max_queued, tx)
        await self.ringing.ring([(job.kind, Ring(tenant_id, job_id))])
        return retried

    async def _wake_if_over(self, tenant_id: TenantId, document_id: DocumentId) -> None:
        """The text may have come, or failed, while a job that waits for it was being written."""
        async with self.database.begin(tenant_id) as tx:
            woken = [] if await _live_text(tx, document_id) else await tx.jobs.wake(document_id)
        await self.ringing.ring(woken)


async def _enter(tx: Tx, document_id: DocumentId, request: JobRequest) -> tuple[RequestedJob, bool]:
    """And whether it waits for the document's text."""
    document = await tx.documents.get(document_id)
    if document is None:
        raise NotFound("there is no such document")
    waits = request.kind in NEED_TEXT and document.page_count is None
    if waits:
        await _text_to_come(tx, document_id)
    wanted = new_job(document_id, request, waits=waits)
    job = await tx.jobs.add(wanted)
    new = job is not None
    while job is None:
        # The equal one may end between the two looks, and so make room.
        job = _equal(await tx.jobs.newest(document_ids=[document_id], kind=wanted.kind), wanted.dedup_key)
        job, new = (job, False) if job else (await tx.jobs.add(wanted), True)
    return RequestedJob(job=job, new=new), waits


async def _text_to_come(tx: Tx, document_id: DocumentId) -> None:
    if not await _live_text(tx, document_id):
        raise Conflict(f"the document has no text, and no job makes one: ask for {TEXT} first")


async def _live_text(tx: Tx, document_id: DocumentId) -> bool:
    return any(not job.state.terminal for job in await tx.jobs.newest(document_ids=[document_id], kind=TEXT))


def _left_no_text(job: Job) -> bool:
    return job.kind == TEXT and job.state is JobState.CANCELLED


def _retryable(job: Job) -> frozenset[JobState]:
    ended = frozenset({JobState.FAILED, JobState.CANCELLED})
    return ended | {JobState.DONE} if job.kind == WEBHOOK else ended


def _refuse_to_retry(job: Job, *, equal: Job | None) -> None:
    if job.state not in _retryable(job):
        raise Conflict(f"a job is retried once it has failed or was cancelled: this one is {job.state}")
    if equal is not None:
        raise Conflict(f"an equal job is {equal.state} already: {equal.id}")


async def _live_equal(tx: Tx, job: Job) -> Job | None:
    if job.dedup_key is None or job.document_id is None:
        return None
    return _equal(await tx.jobs.newest(document_ids=[job.document_id], kind=job.kind), job.dedup_key)


def _equal(jobs: list[Job], dedup_key: str | None) -> Job | None:
    return next((job for job in jobs if job.dedup_key == dedup_key and not job.state.terminal), None)
