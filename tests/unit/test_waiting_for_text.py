"""A job that needs a document's text waits for the job that makes it, and is rung for when that has ended."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from hashlib import sha256

import pytest

from app.adapters.memory.blobs import MemoryBlobs
from app.domain.documents import Document
from app.domain.errors import Conflict, DocumentFault, Invalid
from app.domain.jobs import Job, JobState
from app.domain.leases import ClaimOutcome
from app.domain.outcomes import DeliveryRings, Done, Fail, Outcome
from app.ports.database import Tx
from app.services.events.watcher import ChangePollers
from app.services.jobs import JobService
from app.services.uploads import WAIT_FOR_TEXT, JobRequest, ReceivedBlob, UploadService
from tests.support.rig import OOPS, SECOND, Rig, new_document, new_page, ring_of
from tests.unit.bench import Away, Bench

OCR, ASK, SUMMARIZE = (JobRequest(kind=kind, payload={}) for kind in ("ocr", "ask", "summarize"))
MANY = 10_000
LATER = WAIT_FOR_TEXT + SECOND


class House:
    """Uploads, jobs and a worker on one store and one queue."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.bench = Bench(rig=rig)
        languages = lambda: frozenset({"eng"})  # noqa: E731 - a constant as a call
        self.uploads = UploadService(
            database=rig.database, blobs=MemoryBlobs(), ringing=self.bench.ringing, languages=languages, llm=True
        )
        self.jobs = JobService(
            database=rig.database,
            ringing=self.bench.ringing,
            languages=languages,
            llm=True,
            watching=ChangePollers(rig.database),
            stopping=asyncio.Event(),
        )

    async def upload(self, *requests: JobRequest) -> list[Job]:
        document = new_document(await self.rig.tenant())
        received = ReceivedBlob(
            tenant_id=document.tenant_id,
            document_id=document.id,
            media_type=document.media_type,
            size=document.size,
            sha256=sha256(document.id.bytes).hexdigest(),
            begun_at=document.created_at,
        )
        accepted = await self.uploads.accept(
            received, filename="a", language="eng", metadata={}, requests=requests, max_queued=MANY
        )
        return accepted.jobs

    async def request(self, document: Document, request: JobRequest) -> Job:
        return (await self.jobs.request(document.tenant_id, document.id, request, max_queued=MANY)).job

    async def rung(self) -> set[str]:
        """The kinds that are rung for."""
        kinds = set()
        for ring in await self.bench.rung():
            async with self.rig.database.begin(ring.tenant_id) as tx:
                job = await tx.jobs.get(ring.job_id)
            assert job is not None
            kinds.add(job.kind)
        return kinds


@pytest.fixture
def house(rig: Rig) -> House:
    return House(rig)


def by_kind(jobs: list[Job], kind: str) -> Job:
    return next(job for job in jobs if job.kind == kind)


def reads(document_id: object) -> Callable[..., Awaitable[Outcome]]:
    async def act(*_: object) -> Outcome:
        async def apply(tx: Tx) -> DeliveryRings:
            await tx.pages.replace(document_id, [new_page()])  # type: ignore[arg-type]
            await tx.documents.set_read(document_id, page_count=1)  # type: ignore[arg-type]
            return await tx.jobs.wake(document_id)  # type: ignore[arg-type]

        return Done(apply)

    return act


async def fails(*_: object) -> Outcome:
    return Fail(OOPS)


async def raises(*_: object) -> Outcome:
    raise DocumentFault("corrupt", "It is damaged.")


async def test_with_one_upload_only_the_text_is_begun(house: House) -> None:
    jobs = await house.upload(ASK, OCR, SUMMARIZE)
    assert await house.rung() == {"ocr"}
    for kind in ("ask", "summarize"):
        waiting = by_kind(jobs, kind)
        assert waiting.run_after - waiting.created_at == WAIT_FOR_TEXT
        claim = await house.rig.claim(ring_of(waiting), kinds=frozenset({kind}))
        assert claim.outcome is ClaimOutcome.NOT_DUE


async def test_the_text_is_there_with_the_commit_that_rings_for_who_waits(house: House) -> None:
    jobs = await house.upload(OCR, ASK, SUMMARIZE)
    ocr = by_kind(jobs, "ocr")
    await house.rung()
    house.bench.handler.act = reads(ocr.document_id)
    assert (await house.bench.run(ocr)).state is JobState.DONE
    assert await house.rung() == {"ask", "summarize"}
    claim = await house.rig.claim(ring_of(by_kind(jobs, "ask")), kinds=frozenset({"ask"}))
    assert claim.outcome is ClaimOutcome.CLAIMED


@pytest.mark.parametrize("act", [fails, raises])
async def test_who_waits_is_rung_for_as_well_when_the_text_does_not_come(
    house: House, act: Callable[..., Awaitable[Outcome]]
) -> None:
    jobs = await house.upload(OCR, ASK)
    await house.rung()
    house.bench.handler.act = act
    assert (await house.bench.run(by_kind(jobs, "ocr"))).state is JobState.FAILED
    assert await house.rung() == {"ask"}


async def test_a_cancelled_text_rings_for_who_waited_for_it(house: House) -> None:
    jobs = await house.upload(OCR, ASK)
    await house.rung()
    ocr = by_kind(jobs, "ocr")
    await house.jobs.cancel(ocr.tenant_id, ocr.id)
    assert await house.rung() == {"ask"}


async def test_should_the_bell_be_lost_with_its_worker_it_becomes_due_by_itself(house: House) -> None:
    jobs = await house.upload(OCR, ASK)
    await house.rung()
    execution = house.bench.execution(database=Away(house.rig.database, begin=1))
    house.bench.handler.act = fails
    await house.bench.run(by_kind(jobs, "ocr"), execution=execution)
    assert await house.rung() == set()
    await house.rig.advance(LATER)
    claim = await house.rig.claim(ring_of(by_kind(jobs, "ask")), kinds=frozenset({"ask"}))
    assert claim.outcome is ClaimOutcome.CLAIMED


async def test_without_a_text_to_come_nothing_is_queued(house: House, rig: Rig) -> None:
    with pytest.raises(Invalid, match="request ocr too") as refused:
        await house.upload(ASK)
    assert refused.value.pointer == "/jobs"
    document = await rig.document(await rig.tenant("other"))
    with pytest.raises(Conflict, match="request ocr first"):
        await house.request(document, ASK)
    async with rig.database.begin(document.tenant_id) as tx:
        assert await tx.jobs.newest() == []


async def test_asked_for_while_the_text_is_made_it_waits(house: House, rig: Rig) -> None:
    document = await rig.document(await rig.tenant())
    await house.request(document, OCR)
    waiting = await house.request(document, ASK)
    assert waiting.run_after - waiting.created_at == WAIT_FOR_TEXT
    assert await house.rung() == {"ocr"}


async def test_asked_for_when_the_text_is_there_it_is_rung_for_at_once(house: House, rig: Rig) -> None:
    document = await rig.document(await rig.tenant())
    async with rig.database.begin(document.tenant_id) as tx:
        await tx.documents.set_read(document.id, page_count=1)
    job = await house.request(document, ASK)
    assert job.run_after - job.created_at == timedelta()
    assert await house.rung() == {"ask"}
