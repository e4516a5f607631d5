"""An upload: bytes, then rows, then the bell; and what is left when one of them fails."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from os import urandom
from typing import Any

import pytest
from typing_extensions import override

from app.adapters.memory.blobs import MemoryBlobs
from app.adapters.memory.doorbell import MemoryDoorbell
from app.domain.documents import blob_key
from app.domain.doorbells import Lane, Ring
from app.domain.errors import Invalid, NotFound, TooLarge, Unsupported
from app.domain.filetypes.types import DOCX, ENCRYPTED
from app.domain.ids import TenantId
from app.domain.jobs import JobState
from app.ports.blobs import Blobs
from app.ports.database import Tx
from app.services.ringing import PATIENCE, Ringer
from app.services.uploads import AcceptedUpload, JobRequest, ReceivedBlob, UploadService
from app.telemetry import Metrics
from tests.support.office import compound_file, docx, zipped
from tests.support.rig import Rig, ring_of
from tests.unit.bench import Away, Deaf, Hanging

OCR = JobRequest(kind="ocr", payload={"mode": "auto"})
PDF = b"%PDF-1.7 hello"


class Desk:
    """Uploads, and what they leave behind."""

    def __init__(self, rig: Rig, *, doorbell: MemoryDoorbell | None = None, max_bytes: int = 1_000_000) -> None:
        self.rig = rig
        self.blobs = MemoryBlobs()
        self.bell = doorbell or MemoryDoorbell()
        self.metrics = Metrics()
        self.max_bytes = max_bytes
        self.uploads = self.through(rig.database, self.blobs)

    def through(self, database: Any, blobs: Blobs) -> UploadService:
        return UploadService(
            database=database,
            blobs=blobs,
            ringing=Ringer(dict.fromkeys(Lane, self.bell), self.metrics),
            languages=lambda: frozenset({"eng", "deu"}),
            llm=False,
        )

    async def receive(self, tenant: TenantId, chunks: AsyncIterator[bytes]) -> ReceivedBlob:
        return await self.uploads.receive(tenant, chunks, max_bytes=self.max_bytes, begun_at=datetime.now(UTC))

    async def accept(self, received: ReceivedBlob, *requests: JobRequest, **fields: Any) -> AcceptedUpload:
        described: dict[str, Any] = {
            "filename": "letter.pdf",
            "language": "eng",
            "metadata": {},
            "max_queued": 10_000,
        } | fields
        return await self.uploads.accept(received, requests=requests or [OCR], **described)

    async def upload(self, tenant: TenantId, content: bytes = PDF, **fields: Any) -> AcceptedUpload:
        return await self.accept(await self.receive(tenant, chunks(content)), **fields)

    async def rung(self) -> list[Ring]:
        return [delivery.ring for delivery in await self.bell.answer(limit=100, wait=timedelta())]

    async def counts(self, tenant: TenantId) -> tuple[int, int, int]:
        """Documents, jobs, blobs."""
        async with self.rig.database.begin(tenant) as tx:
            documents, jobs = await tx.documents.newest(limit=100), await tx.jobs.newest()
        return len(documents), len(jobs), len(self.blobs._blobs)

    def bells(self, event: str) -> float:
        return self.metrics.registry.get_sample_value("daira_doorbells_total", {"event": event}) or 0


async def chunks(*contents: bytes) -> AsyncIterator[bytes]:
    for content in contents:
        yield content


async def endless(head: bytes, taken: list[int]) -> AsyncIterator[bytes]:
    """A stream that notes how much of it was asked for."""
    yield head
    while True:
        taken.append(1024)
        yield b"x" * 1024


async def test_what_is_received_is_measured_on_its_way(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    received = await desk.receive(tenant, chunks(b"%P", b"DF-1.7", b"", b"x" * 5000))
    content = b"%PDF-1.7" + b"x" * 5000
    assert (received.size, received.sha256) == (len(content), sha256(content).hexdigest())
    assert received.media_type == "application/pdf"
    assert desk.blobs._blobs == {blob_key(tenant, received.document_id): content}


async def test_an_upload_leaves_a_document_a_queued_job_and_a_bell(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    accepted = await desk.upload(tenant, language="deu", metadata={"a": 1})
    (job,) = accepted.jobs
    assert (accepted.document.language, accepted.document.metadata, accepted.deduplicated) == ("deu", {"a": 1}, False)
    assert (job.state, job.document_id, job.payload) == (JobState.QUEUED, accepted.document.id, OCR.payload)
    assert await rig.again(job) == job
    assert await desk.rung() == [ring_of(job)]
    assert desk.bells("rung") == 1


async def test_the_bytes_come_before_the_transaction_and_the_bell_after_its_commit(rig: Rig) -> None:
    tenant = await rig.tenant()
    seen: list[str] = []

    class Watching(MemoryDoorbell):
        @override
        async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
            for ring in rings:
                async with rig.database.begin(ring.tenant_id) as tx:
                    job = await tx.jobs.get(ring.job_id)
                seen.append(f"bell, job {job.state if job else 'unseen'}")
            await super().ring(rings, delay=delay)

    class WatchedDatabase:
        def begin(self, tenant_id: TenantId) -> AbstractAsyncContextManager[Tx]:
            seen.append(f"transaction, {len(desk.blobs._blobs)} blob")
            return rig.database.begin(tenant_id)

    desk = Desk(rig, doorbell=Watching())
    uploads = desk.through(WatchedDatabase(), desk.blobs)
    received = await uploads.receive(tenant, chunks(PDF), max_bytes=1_000_000, begun_at=datetime.now(UTC))
    assert seen == []
    await uploads.accept(received, filename="a", language="eng", metadata={}, requests=[OCR], max_queued=10_000)
    assert seen == ["transaction, 1 blob", "bell, job queued"]


async def test_a_queue_that_is_away_does_not_fail_the_upload_and_is_counted(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig, doorbell=Deaf())
    accepted = await desk.upload(tenant)
    assert await desk.counts(tenant) == (1, 1, 1)
    assert (await rig.again(accepted.jobs[0])).state is JobState.QUEUED
    assert (desk.bells("failed"), desk.bells("rung")) == (1, 0)


async def test_a_queue_that_hangs_delays_an_upload_by_its_patience_at_most(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig, doorbell=Hanging())
    began = time.monotonic()
    async with asyncio.timeout(10):
        await desk.upload(tenant)
    assert time.monotonic() - began >= PATIENCE.total_seconds() * 0.9
    assert timedelta(seconds=1) >= PATIENCE
    assert await desk.counts(tenant) == (1, 1, 1)
    assert desk.bells("failed") == 1


@pytest.mark.threat(48)
async def test_over_the_limit_nothing_is_stored(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig, max_bytes=5000)
    for content in (PDF + b"x" * 5000, b"%PDF-" + b"x" * 4996):
        with pytest.raises(TooLarge, match="5,000"):
            await desk.receive(tenant, chunks(content[:2000], content[2000:]))
        assert await desk.counts(tenant) == (0, 0, 0)
    assert (await desk.receive(tenant, chunks(b"%PDF-" + b"x" * 4995))).size == 5000


@pytest.mark.threat(48)
async def test_an_endless_upload_is_stopped_just_beyond_the_limit(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig, max_bytes=50_000)
    taken: list[int] = []
    with pytest.raises(TooLarge):
        await desk.receive(tenant, endless(PDF, taken))
    assert sum(taken) <= 50_000 + 2048
    assert await desk.counts(tenant) == (0, 0, 0)


async def test_an_unsupported_type_stops_after_the_first_bytes(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    taken: list[int] = []
    with pytest.raises(Unsupported):
        await desk.receive(tenant, endless(b"\0\1", taken))
    assert len(taken) <= 1
    assert await desk.counts(tenant) == (0, 0, 0)


@pytest.mark.threat(51)
async def test_an_archive_is_refused_at_its_end_and_leaves_nothing(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    archive = zipped({f"{number}.bin": urandom(100_000) for number in range(9)})
    with pytest.raises(Unsupported, match="unpack it"):
        await desk.receive(tenant, chunks(*(archive[at : at + 65_536] for at in range(0, len(archive), 65_536))))
    assert await desk.counts(tenant) == (0, 0, 0)


async def test_a_document_in_a_container_is_told_by_its_parts_and_by_no_name(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    accepted = await desk.upload(tenant, docx(), filename="letter.bin")
    assert accepted.document.media_type == DOCX
    received = await desk.receive(tenant, chunks(compound_file("EncryptedPackage")))
    assert received.media_type == ENCRYPTED


async def test_a_type_is_told_from_bytes_that_come_one_by_one(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    received = await desk.receive(tenant, chunks(*(b"%c" % byte for byte in PDF)))
    assert (received.media_type, received.size) == ("application/pdf", len(PDF))


@pytest.mark.parametrize("contents", [(), (b"",), (b"", b"")])
async def test_an_empty_file_is_refused(rig: Rig, contents: tuple[bytes, ...]) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    with pytest.raises(Invalid, match="empty") as refused:
        await desk.receive(tenant, chunks(*contents))
    assert refused.value.pointer == "/file"
    assert await desk.counts(tenant) == (0, 0, 0)


async def test_a_stream_that_breaks_leaves_nothing(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)

    async def breaking() -> AsyncIterator[bytes]:
        yield PDF + b"x" * 5000
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await desk.receive(tenant, breaking())
    assert await desk.counts(tenant) == (0, 0, 0)


async def test_the_same_bytes_are_the_same_document_and_the_second_blob_is_removed(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    first = await desk.upload(tenant)
    await desk.rung()
    again = await desk.upload(tenant, filename="other.pdf", metadata={"a": 1})
    assert again == AcceptedUpload(document=first.document, jobs=first.jobs, deduplicated=True)
    assert list(desk.blobs._blobs) == [blob_key(tenant, first.document.id)]
    assert await desk.counts(tenant) == (1, 1, 1)
    assert await desk.rung() == []


@pytest.mark.parametrize("left", [None, b"", PDF[:-1], PDF + b"!", b"%PDF-1.7 jello"])
async def test_the_same_bytes_again_mend_what_the_blob_store_has_lost(rig: Rig, left: bytes | None) -> None:
    """As after a backup was restored whose rows and bytes are not of one moment."""
    tenant, desk = await rig.tenant(), Desk(rig)
    first = await desk.upload(tenant)
    key = blob_key(tenant, first.document.id)
    desk.blobs._blobs.pop(key)
    if left is not None:
        await desk.blobs.put(key, chunks(left))
    again = await desk.upload(tenant)
    assert again == AcceptedUpload(document=first.document, jobs=first.jobs, deduplicated=True)
    assert desk.blobs._blobs == {key: PDF}


async def test_the_same_bytes_at_the_same_time_are_one_document(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    accepted = await asyncio.gather(*(desk.upload(tenant) for _ in range(10)))
    assert len({each.document.id for each in accepted}) == 1
    assert sorted(each.deduplicated for each in accepted) == [False] + [True] * 9
    assert list(desk.blobs._blobs) == [blob_key(tenant, accepted[0].document.id)]
    assert await desk.counts(tenant) == (1, 1, 1)


@pytest.mark.threat(10)
async def test_the_same_bytes_of_two_tenants_are_two_documents(rig: Rig) -> None:
    desk = Desk(rig)
    one, two = await desk.upload(await rig.tenant("one")), await desk.upload(await rig.tenant("two"))
    assert one.document.id != two.document.id
    assert not two.deduplicated
    assert len(desk.blobs._blobs) == 2


@pytest.mark.threat(13)
async def test_a_document_that_is_deleted_meanwhile_makes_room_for_the_same_bytes(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    first = await desk.upload(tenant)
    received = await desk.receive(tenant, chunks(PDF))
    assert await rig.remove(first.document)
    again = await desk.accept(received)
    assert not again.deduplicated
    assert again.document.id == received.document_id


async def test_a_transaction_that_fails_leaves_no_rows_and_rings_no_bell(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    received = await desk.receive(tenant, chunks(PDF))
    with pytest.raises(TypeError):
        await desk.accept(received, OCR, JobRequest(kind="ocr", payload={"no JSON": object()}))
    assert await desk.counts(tenant) == (0, 0, 1)
    assert await desk.rung() == []
    await desk.uploads.discard(received)
    assert await desk.counts(tenant) == (0, 0, 0)


async def test_an_upload_for_an_unknown_tenant_leaves_no_rows(rig: Rig) -> None:
    tenant, desk = TenantId("nobody"), Desk(rig)
    received = await desk.receive(tenant, chunks(PDF))
    with pytest.raises(NotFound):
        await desk.accept(received)
    assert await desk.rung() == []


async def test_bytes_that_can_not_be_stored_leave_no_rows(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    uploads = desk.through(rig.database, Away(desk.blobs, put=1))
    with pytest.raises(Exception, match="away"):
        await uploads.receive(tenant, chunks(PDF), max_bytes=1_000_000, begun_at=datetime.now(UTC))
    assert await desk.counts(tenant) == (0, 0, 0)


async def test_a_language_that_is_not_installed_is_refused_with_those_that_are(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    with pytest.raises(Invalid, match="deu, eng") as refused:
        await desk.upload(tenant, language="xyz")
    assert refused.value.pointer == "/language"
    with pytest.raises(Invalid, match="language 'xyz' is not installed here; there is deu, eng"):
        await desk.upload(tenant, language="eng+xyz+deu")
    received = await desk.receive(tenant, chunks(PDF))
    with pytest.raises(Invalid, match="deu, eng") as refused:
        await desk.accept(received, OCR, JobRequest(kind="ocr", payload={"language": "xyz"}))
    assert refused.value.pointer == "/jobs/1/language"
    assert (await desk.counts(tenant))[:2] == (0, 0)


async def test_equal_requests_are_one_job_whatever_the_order_of_their_fields(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    received = await desk.receive(tenant, chunks(PDF))
    requests: list[dict[str, object]] = [{"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}, {"a": 1}]
    accepted = await desk.accept(received, *(JobRequest(kind="ocr", payload=payload) for payload in requests))
    assert [job.payload for job in accepted.jobs] == [{"a": 1}, requests[0]]
    assert len(await desk.rung()) == 2


async def test_jobs_are_listed_newest_first_when_accepted_and_when_read(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    received = await desk.receive(tenant, chunks(PDF))
    accepted = await desk.accept(received, *(JobRequest(kind="ocr", payload={"n": n}) for n in range(20)))
    async with rig.database.begin(tenant) as tx:
        assert await tx.jobs.newest() == accepted.jobs


async def test_a_kind_that_this_version_does_not_know_is_queued_and_not_rung(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    received = await desk.receive(tenant, chunks(PDF))
    accepted = await desk.accept(received, JobRequest(kind="brew", payload={}))
    assert [job.kind for job in accepted.jobs] == ["brew"]
    assert await desk.rung() == []
