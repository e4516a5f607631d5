"""Asking for jobs, waiting for their end, cancelling them."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from app.domain.documents import Document
from app.domain.errors import Conflict, Invalid, NotFound
from app.domain.ids import DocumentId, JobId, TenantId, uuid7
from app.domain.jobs import CANCELLED, AttemptOutcome, JobState
from app.ports.database import Database
from app.services.events.watcher import LONGEST_PAUSE, ChangePollers
from app.services.jobs import JobService
from app.services.uploads import JobRequest
from tests.support.rig import SECOND, Rig, done, fail, ring_of
from tests.unit.bench import Bench
from tests.unit.waiting import settled

OCR = JobRequest(kind="ocr", payload={"mode": "auto"})
MINUTE = timedelta(minutes=1)
MANY = 10_000


def service(bench: Bench, database: Database) -> JobService:
    return JobService(
        database=database,
        ringing=bench.ringing,
        languages=lambda: frozenset({"deu", "eng"}),
        llm=False,
        watching=ChangePollers(database),
        stopping=asyncio.Event(),
    )


async def requested(jobs: JobService, tenant: TenantId, document: DocumentId, request: JobRequest, **given: Any) -> Any:
    found = await jobs.request(tenant, document, request, **given)
    return found.job, found.new


@pytest.fixture
def jobs(bench: Bench) -> JobService:
    return service(bench, bench.rig.database)


@pytest.fixture
async def document(rig: Rig) -> Document:
    return await rig.document(await rig.tenant())


async def test_a_job_is_read_with_its_attempts(bench: Bench, jobs: JobService) -> None:
    job = await bench.run(await bench.rig.enqueue(await bench.rig.tenant()))
    found, attempts = await jobs.get(job.tenant_id, job.id)
    assert found == job
    assert [attempt.outcome for attempt in attempts] == [AttemptOutcome.DONE]


async def test_an_unknown_and_a_foreign_job_are_not_found_alike(bench: Bench, jobs: JobService) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())
    other = await bench.rig.tenant("other")
    texts = set()
    for tenant, identity in ((job.tenant_id, JobId(uuid7())), (other, job.id)):
        for ask in (jobs.get(tenant, identity), jobs.wait(tenant, identity, at_most=MINUTE)):
            with pytest.raises(NotFound) as refused:
                await ask
            texts.add(str(refused.value))
        with pytest.raises(NotFound):
            await jobs.cancel(tenant, identity)
    assert len(texts) == 1


async def test_a_wait_returns_as_soon_as_the_job_has_ended(bench: Bench, jobs: JobService) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())
    waiting = asyncio.create_task(jobs.wait(job.tenant_id, job.id, at_most=MINUTE))
    await settled()
    assert not waiting.done()
    await bench.run(job)
    ended = time.monotonic()
    async with asyncio.timeout(10):
        found, attempts = await waiting
    assert time.monotonic() - ended < LONGEST_PAUSE
    assert (found.state, len(attempts)) == (JobState.DONE, 1)


@pytest.mark.parametrize("state", [JobState.DONE, JobState.FAILED, JobState.CANCELLED])
async def test_a_wait_for_a_job_that_has_ended_returns_at_once(rig: Rig, jobs: JobService, state: JobState) -> None:
    job = await rig.enqueue(await rig.tenant())
    if state is JobState.CANCELLED:
        await rig.cancel(job)
    else:
        assert await rig.settle((done if state is JobState.DONE else fail)(await rig.lease(job)))
    began = time.monotonic()
    found, _ = await jobs.wait(job.tenant_id, job.id, at_most=MINUTE)
    assert found.state is state
    assert time.monotonic() - began < 5


async def test_a_wait_that_runs_out_returns_the_job_as_it_is(rig: Rig, jobs: JobService) -> None:
    job = await rig.enqueue(await rig.tenant())
    began = time.monotonic()
    found, _ = await jobs.wait(job.tenant_id, job.id, at_most=timedelta(seconds=0.1))
    assert found == job
    assert time.monotonic() - began >= 0.1
    assert (await jobs.wait(job.tenant_id, job.id, at_most=timedelta()))[0] == job


async def test_a_wait_whose_job_is_deleted_ends_as_not_found(rig: Rig, jobs: JobService, document: Document) -> None:
    job = await rig.enqueue(document.tenant_id, document_id=document.id)
    waiting = asyncio.create_task(jobs.wait(job.tenant_id, job.id, at_most=MINUTE))
    await settled()
    await rig.remove(document)
    async with asyncio.timeout(10):
        with pytest.raises(NotFound):
            await waiting


async def test_a_wait_looks_often_at_first_and_holds_no_transaction_between(rig: Rig) -> None:
    looks: list[float] = []
    open_now = 0

    class Noting:
        @asynccontextmanager
        async def begin(self, tenant_id: TenantId) -> AsyncIterator[Any]:
            nonlocal open_now
            looks.append(time.monotonic())
            async with rig.database.begin(tenant_id) as tx:
                open_now += 1
                yield tx
            open_now -= 1

    job = await rig.enqueue(await rig.tenant())
    jobs = service(Bench(rig=rig), Noting())
    waiting = asyncio.create_task(jobs.wait(job.tenant_id, job.id, at_most=timedelta(seconds=0.4)))
    await settled()
    assert open_now == 0
    await waiting
    assert open_now == 0
    assert 4 <= len(looks) <= 12


async def test_a_request_queues_a_job_and_rings(bench: Bench, jobs: JobService, document: Document) -> None:
    job, new = await requested(jobs, document.tenant_id, document.id, OCR, max_queued=MANY)
    assert new
    assert (job.kind, job.payload, job.state) == ("ocr", OCR.payload, JobState.QUEUED)
    assert job.document_id == document.id
    assert await bench.rung() == [ring_of(job)]


async def test_a_request_for_an_unknown_or_foreign_document_queues_nothing(
    bench: Bench, jobs: JobService, document: Document
) -> None:
    other = await bench.rig.tenant("other")
    for tenant, identity in ((document.tenant_id, DocumentId(uuid7())), (other, document.id)):
        with pytest.raises(NotFound):
            await jobs.request(tenant, identity, OCR, max_queued=MANY)
    assert await bench.rung() == []


@pytest.mark.parametrize("claimed", [False, True])
async def test_an_equal_request_answers_the_same_job_and_does_not_ring(
    bench: Bench, jobs: JobService, document: Document, *, claimed: bool
) -> None:
    first, _ = await requested(jobs, document.tenant_id, document.id, OCR, max_queued=MANY)
    await bench.rung()
    if claimed:
        await bench.rig.claimed(first)
    again, new = await requested(jobs, document.tenant_id, document.id, OCR, max_queued=MANY)
    assert (again.id, new) == (first.id, False)
    assert await bench.rung() == []


async def test_a_request_in_a_language_that_is_not_installed_is_refused(
    bench: Bench, jobs: JobService, document: Document
) -> None:
    with pytest.raises(Invalid, match="deu, eng"):
        await jobs.request(
            document.tenant_id, document.id, JobRequest(kind="ocr", payload={"language": "xyz"}), max_queued=MANY
        )
    assert await bench.rung() == []


async def test_an_equal_request_after_the_end_is_a_new_job(bench: Bench, jobs: JobService, document: Document) -> None:
    first, _ = await requested(jobs, document.tenant_id, document.id, OCR, max_queued=MANY)
    await bench.run(first)
    again, new = await requested(jobs, document.tenant_id, document.id, OCR, max_queued=MANY)
    assert new
    assert again.id != first.id


async def test_another_request_is_another_job(jobs: JobService, document: Document) -> None:
    first, _ = await requested(jobs, document.tenant_id, document.id, OCR, max_queued=MANY)
    other, new = await requested(
        jobs, document.tenant_id, document.id, JobRequest(kind="ocr", payload={"mode": "force"}), max_queued=MANY
    )
    assert new
    assert other.id != first.id


async def test_equal_requests_of_two_documents_are_two_jobs(rig: Rig, jobs: JobService, document: Document) -> None:
    other = await rig.document(document.tenant_id)
    answers = [await requested(jobs, document.tenant_id, each.id, OCR, max_queued=MANY) for each in (document, other)]
    assert [new for _, new in answers] == [True, True]


@pytest.mark.threat(13)
async def test_equal_requests_at_the_same_time_are_one_job(bench: Bench, jobs: JobService, document: Document) -> None:
    answers = await asyncio.gather(
        *(requested(jobs, document.tenant_id, document.id, OCR, max_queued=MANY) for _ in range(10))
    )
    assert len({job.id for job, _ in answers}) == 1
    assert sorted(new for _, new in answers) == [False] * 9 + [True]
    assert len(await bench.rung()) == 1


@pytest.mark.threat(13)
async def test_an_equal_job_that_ends_between_the_two_looks_makes_room_for_a_new_one(
    bench: Bench, jobs: JobService, document: Document
) -> None:
    first, _ = await requested(jobs, document.tenant_id, document.id, OCR, max_queued=MANY)
    racing = service(bench, EndsMeanwhile(bench.rig.database, first.id))
    async with asyncio.timeout(5):
        job, new = await requested(racing, document.tenant_id, document.id, OCR, max_queued=MANY)
    assert new
    assert job.id != first.id
    assert (await bench.rig.again(first)).state is JobState.CANCELLED


class EndsMeanwhile:
    """A database in which somebody cancels a job just before it is looked for."""

    def __init__(self, inner: Database, job_id: JobId) -> None:
        self._inner = inner
        self._job_id = job_id

    @asynccontextmanager
    async def begin(self, tenant_id: TenantId) -> AsyncIterator[Any]:
        async with self._inner.begin(tenant_id) as tx:
            live_equal = tx.jobs.live_equal

            async def after_a_cancel(**filters: Any) -> Any:
                await tx.jobs.cancel(self._job_id)
                return await live_equal(**filters)

            tx.jobs.live_equal = after_a_cancel  # type: ignore[method-assign]
            yield tx


async def test_a_queued_job_is_cancelled_at_once(rig: Rig, jobs: JobService) -> None:
    job = await rig.enqueue(await rig.tenant())
    cancelled = await jobs.cancel(job.tenant_id, job.id)
    assert (cancelled.state, cancelled.error) == (JobState.CANCELLED, CANCELLED)


async def test_a_claimed_job_is_flagged_for_its_worker(rig: Rig, jobs: JobService) -> None:
    job = await rig.enqueue(await rig.tenant())
    lease = await rig.lease(job)
    cancelled = await jobs.cancel(job.tenant_id, job.id)
    assert (cancelled.state, cancelled.cancel_requested) == (JobState.CLAIMED, True)
    assert (await rig.beat(lease)).cancel_requested


async def test_cancelling_twice_is_no_conflict(rig: Rig, jobs: JobService) -> None:
    job = await rig.enqueue(await rig.tenant())
    first = await jobs.cancel(job.tenant_id, job.id)
    await rig.advance(SECOND)
    assert await jobs.cancel(job.tenant_id, job.id) == first


@pytest.mark.parametrize("end", [done, fail])
async def test_a_job_that_has_ended_can_not_be_cancelled(rig: Rig, jobs: JobService, end: Any) -> None:
    job = await rig.enqueue(await rig.tenant())
    assert await rig.settle(end(await rig.lease(job)))
    with pytest.raises(Conflict, match="has ended"):
        await jobs.cancel(job.tenant_id, job.id)


async def test_a_listing_takes_all_its_filters_together(rig: Rig, jobs: JobService, document: Document) -> None:
    wanted = await rig.enqueue(document.tenant_id, document_id=document.id)
    await rig.enqueue(document.tenant_id)
    await rig.enqueue(document.tenant_id, document_id=document.id, kind="other")
    await rig.cancel(await rig.enqueue(document.tenant_id, document_id=document.id))
    found = await jobs.newest(document.tenant_id, limit=10, state=JobState.QUEUED, kind="ocr", document_id=document.id)
    assert [job.id for job in found] == [wanted.id]
