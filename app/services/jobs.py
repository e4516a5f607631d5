"""Requests jobs, waits for them, cancels and retries them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from app.domain.doorbells import NEED_TEXT, TEXT_KIND, Ring
from app.domain.errors import Conflict, NotFound, Unavailable
from app.domain.idempotency import IdempotencyKey
from app.domain.ids import DocumentId, JobId, TenantId
from app.domain.jobs import Attempt, Job, JobState
from app.domain.webhooks import KIND as WEBHOOK
from app.ports.database import Database, Tx
from app.services import idempotency
from app.services.documents import DocumentListing, existing_document, jobs_shown
from app.services.events.follower import Subscription
from app.services.events.watcher import ChangePollers
from app.services.limits import refuse_beyond_queue_limit
from app.services.ringing import Ringer
from app.services.uploads import JobRequest, check_kinds, check_languages, new_job


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedJob:
    job: Job
    new: bool
    """True if this request made the job; False if an equal one existed."""
    replayed: bool = False
    """True if an earlier request with the same idempotency key did the work, and nothing was done now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobService:
    database: Database
    ringing: Ringer
    languages: Callable[[], frozenset[str]]
    llm: bool
    """True if a language model is configured."""
    watching: ChangePollers
    stopping: asyncio.Event
    """Set when the service is asked to stop. Waiting callers then get the job as it is."""

    async def get(self, tenant_id: TenantId, job_id: JobId) -> tuple[Job, list[Attempt]]:
        async with self.database.begin(tenant_id) as tx:
            job = await tx.jobs.get(job_id)
            if job is None:
                raise NotFound("there is no such job")
            return job, await tx.jobs.attempts(job_id)

    async def wait(self, tenant_id: TenantId, job_id: JobId, *, at_most: timedelta) -> tuple[Job, list[Attempt]]:
        """Return the job when it has ended, or as it is after `at_most`. Holds no connection while it waits."""
        deadline = monotonic() + at_most.total_seconds()
        job, attempts = await self.get(tenant_id, job_id)
        if job.state.terminal or not at_most or self.stopping.is_set():
            return job, attempts
        async with self.watching.follow(tenant_id, job_id) as follower:
            # Read again once it is followed: no change is reported from before.
            await follower.ready(at_most=deadline - monotonic(), stopping=self.stopping)
            while True:
                job, attempts = await self.get(tenant_id, job_id)
                left = deadline - monotonic()
                if job.state.terminal or left <= 0 or self.stopping.is_set():
                    return job, attempts
                await self._until_news_of_an_end(follower, deadline=deadline)

    async def wait_for_all(self, jobs: Sequence[Job], *, at_most: timedelta) -> list[Job]:
        """Return the jobs when all have ended, or as they are after `at_most`; one that can't be read is as given."""
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
        """Return the document when all its jobs have ended, or after `at_most`; as given if it can't be read then."""
        await self.wait_for_all(accepted.jobs, at_most=at_most)
        document = accepted.document
        try:
            async with self.database.begin(document.tenant_id) as tx:
                now = await existing_document(tx, document.id)
                return DocumentListing(document=now, jobs=await jobs_shown(tx, document.id))
        except (NotFound, Unavailable):  # an accepted upload is never answered with an error
            return accepted

    async def _until_news_of_an_end(self, follower: Subscription, *, deadline: float) -> None:
        while news := await follower.listen(at_most=deadline - monotonic(), stopping=self.stopping):
            if news.look or news.missed or news.since is None or any(job.state.terminal for job in news.jobs):
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
        """Queue a job, or return an equal one that is queued or claimed. With `once` the same request is done once.

        Raises TooMany at the tenant's limit, LlmNotConfigured if the kind needs a language model and there is none,
        Invalid for a language that is not installed, NotFound for an unknown document, Conflict if it has no text.
        """
        check_kinds([request], llm=self.llm)
        check_languages(None, [request], installed=self.languages())
        parts = {"kind": request.kind, "payload": request.payload}
        async with self.database.begin(tenant_id) as tx:
            while earlier := await idempotency.earlier_result(tx, once, parts):
                if known := await tx.jobs.get(JobId(earlier.resource_id)):
                    return RequestedJob(job=known, new=earlier.made, replayed=True)
                await idempotency.forget_result(tx, once)
            requested, waits = await _enter(tx, document_id, request)
            job, new = requested.job, requested.new
            await idempotency.record_result(tx, once, resource_id=job.id, made=new, document_id=document_id)
            if new:
                await refuse_beyond_queue_limit(max_queued, tx)
        if waits:
            await self._wake_if_over(tenant_id, document_id)
        elif new:
            await self.ringing.ring([(job.kind, Ring(tenant_id, job.id))])
        return requested

    async def cancel(self, tenant_id: TenantId, job_id: JobId) -> Job:
        """Cancel the job. Raises Conflict if it has ended, unless by an earlier cancel."""
        async with self.database.begin(tenant_id) as tx:
            cancelled = await tx.jobs.cancel(job_id)
            if cancelled is None:
                raise NotFound("there is no such job")
            job, bells = cancelled
            woken = await tx.jobs.wake(job.document_id) if _left_no_text(job) and job.document_id else []
        self.watching.hurry(tenant_id)
        await self.ringing.ring([*bells, *woken])
        if job.state in {JobState.DONE, JobState.FAILED}:
            raise Conflict(f"the job can't be cancelled: it has ended and is {job.state}")
        return job

    async def retry(self, tenant_id: TenantId, job_id: JobId, *, max_queued: int | None) -> Job:
        """Queue an ended job again, with the same id. Its drafts are kept; failures, expiries and answers go.

        Raises Conflict while an equal job is queued or claimed, and unless the job has failed or was cancelled; a
        delivery that is done may be sent again too. Raises TooMany and LlmNotConfigured as `request` does, but not
        with `max_queued` None: an operator's retry has no limit, and goes by no setting of this process.
        """
        async with self.database.begin(tenant_id) as tx:
            job = await tx.jobs.get(job_id)
            if job is None:
                raise NotFound("there is no such job")
            if max_queued is not None:
                check_kinds([JobRequest(kind=job.kind, payload=job.payload)], llm=self.llm)
            _refuse_to_retry(job, equal=await _live_equal(tx, kind=job.kind, dedup_key=job.dedup_key))
            retried = await tx.jobs.retry(job_id, states=_retryable(job))
            if retried is None:
                raise Conflict("the job has just changed; read it again")
            if max_queued is not None:
                await refuse_beyond_queue_limit(max_queued, tx)
        await self.ringing.ring([(job.kind, Ring(tenant_id, job_id))])
        return retried

    async def _wake_if_over(self, tenant_id: TenantId, document_id: DocumentId) -> None:
        """Wake the waiting jobs if no text job is live: the text may have ended while a job was being written."""
        async with self.database.begin(tenant_id) as tx:
            woken = [] if await _live_text(tx, document_id) else await tx.jobs.wake(document_id)
        await self.ringing.ring(woken)


async def _enter(tx: Tx, document_id: DocumentId, request: JobRequest) -> tuple[RequestedJob, bool]:
    """Return the job, and True if it waits for the document's text."""
    document = await tx.documents.get(document_id)
    if document is None:
        raise NotFound("there is no such document")
    waits = request.kind in NEED_TEXT and document.page_count is None
    if waits:
        await _text_to_come(tx, document_id)
    wanted = new_job(JobId(tx.new_id()), document_id, request, waits=waits)
    job = await tx.jobs.add(wanted)
    new = job is not None
    while job is None:
        # The equal job may end between the two queries, and so make room.
        job = await _live_equal(tx, kind=wanted.kind, dedup_key=wanted.dedup_key)
        job, new = (job, False) if job else (await tx.jobs.add(wanted), True)
    return RequestedJob(job=job, new=new), waits


async def _text_to_come(tx: Tx, document_id: DocumentId) -> None:
    if not await _live_text(tx, document_id):
        raise Conflict(f"the document has no text, and no job is making it; request {TEXT_KIND} first")


async def _live_text(tx: Tx, document_id: DocumentId) -> bool:
    jobs = await tx.jobs.of_documents([document_id], each=1, kind=TEXT_KIND)
    return any(not job.state.terminal for job in jobs)


def _left_no_text(job: Job) -> bool:
    return job.kind == TEXT_KIND and job.state is JobState.CANCELLED


def _retryable(job: Job) -> frozenset[JobState]:
    ended = frozenset({JobState.FAILED, JobState.CANCELLED})
    return ended | {JobState.DONE} if job.kind == WEBHOOK else ended


def _refuse_to_retry(job: Job, *, equal: Job | None) -> None:
    if job.state not in _retryable(job):
        raise Conflict(f"only a failed or cancelled job can be retried; this one is {job.state}")
    if equal is not None:
        raise Conflict(f"an equal job is already {equal.state}: {equal.id}")


async def _live_equal(tx: Tx, *, kind: str, dedup_key: str | None) -> Job | None:
    return None if dedup_key is None else await tx.jobs.live_equal(kind=kind, dedup_key=dedup_key)
