"""Which pages are drafted, when an unreadable one is the document's fault, and how a job goes on after a crash."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from app.adapters.memory.blobs import MemoryBlobs
from app.domain.documents import Document, blob_key
from app.domain.errors import AttemptOver, DocumentFault
from app.domain.jobs import Job, Progress
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Yield
from app.domain.pages import Page, Source, chosen_pages
from app.domain.warnings import DETAILS, MOST_PAGES, DocumentWarning, WarningCode, document_warning, page_warnings
from app.handlers.ocr import OcrHandler
from app.handlers.page_drafts import UNREADABLE_AT_FIRST, WORTH_A_DRAFT, PageDrafts
from app.ports.reading import Mode, NeedsRecognition, OpenFile, UnreadablePage
from app.reading.null import NullRecognizer
from app.telemetry import Metrics
from tests.support.rig import Rig, done, new_page, put_back, release

DAMAGED = DocumentFault("corrupt", "Page 2 is damaged.")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def started(rig: Rig, **fields: Any) -> ClaimedJob:
    tenant = await rig.tenant()
    document = await rig.document(tenant, sha256=sha256(b"bytes").hexdigest())
    return await rig.claimed(await rig.enqueue(tenant, document_id=document.id, **fields))


async def drafted(rig: Rig, job: ClaimedJob) -> frozenset[int]:
    async with rig.database.begin(job.lease.tenant_id) as tx:
        return await tx.pages.drafted(job.lease.job_id)


def drafting(rig: Rig, job: ClaimedJob, *, total: int, drafted: int = 0, clock: Clock | None = None) -> PageDrafts:
    numbers = range(1, total + 1)
    stored = frozenset(numbers[:drafted])
    drafts = PageDrafts(rig.database, job.lease, language="eng", drafted=stored, clock=clock or Clock())
    drafts.begin(numbers)
    return drafts


def carried(number: int) -> Page:
    return replace(new_page(number), source=Source.TEXT_LAYER)


async def test_a_recognised_page_is_drafted_at_once_and_the_last_one_not_at_all(rig: Rig) -> None:
    job = await started(rig)
    pages = drafting(rig, job, total=2)
    await pages.take(new_page(1))
    assert await drafted(rig, job) == {1}
    await pages.take(new_page(2))
    assert await drafted(rig, job) == {1}
    assert pages.in_hand == [new_page(2)]


async def test_text_layers_are_drafted_once_they_have_taken_a_while(rig: Rig) -> None:
    job, clock = await started(rig), Clock()
    pages = drafting(rig, job, total=9, clock=clock)
    for number in (1, 2):
        await pages.take(carried(number))
    assert await drafted(rig, job) == frozenset()
    clock.now += WORTH_A_DRAFT * 1.1
    await pages.take(carried(3))
    assert await drafted(rig, job) == {1, 2, 3}
    await pages.take(carried(4))
    assert await drafted(rig, job) == {1, 2, 3}


async def test_nothing_is_drafted_once_the_lease_is_lost(rig: Rig) -> None:
    job = await started(rig)
    assert await rig.settle(done(job.lease))
    with pytest.raises(AttemptOver, match="lease is lost"):
        await drafting(rig, job, total=2).take(new_page(1))


async def test_an_unreadable_page_is_an_empty_one_with_a_warning(rig: Rig) -> None:
    pages = drafting(rig, await started(rig), total=3)
    await pages.take(carried(1))
    await pages.take(UnreadablePage(2, DAMAGED))
    blank = pages.in_hand[-1] if pages.in_hand else None
    assert pages.done == 2
    assert blank is None or (blank.number, blank.text, blank.warnings) == (2, "", (WarningCode.PAGE_UNREADABLE,))


async def test_a_document_of_unreadable_pages_alone_is_to_blame(rig: Rig) -> None:
    pages = drafting(rig, await started(rig), total=2)
    await pages.take(UnreadablePage(1, DAMAGED))
    with pytest.raises(DocumentFault) as fault:
        await pages.take(UnreadablePage(2, DocumentFault("timeout", "It took too long.")))
    assert fault.value is DAMAGED


async def test_one_readable_page_saves_a_short_document(rig: Rig) -> None:
    pages = drafting(rig, await started(rig), total=3)
    await pages.take(UnreadablePage(1, DAMAGED))
    await pages.take(UnreadablePage(2, DAMAGED))
    await pages.take(new_page(3))
    assert pages.done == pages.total


async def test_a_long_document_is_given_up_when_most_of_it_is_unreadable(rig: Rig) -> None:
    pages = drafting(rig, await started(rig), total=2_000)
    for number in range(1, UNREADABLE_AT_FIRST + 1):
        await pages.take(UnreadablePage(number, DAMAGED))
    with pytest.raises(DocumentFault):
        await pages.take(UnreadablePage(99, DAMAGED))


async def test_what_earlier_attempts_have_read_counts_for_the_document(rig: Rig) -> None:
    pages = drafting(rig, await started(rig), total=50, drafted=40)
    for number in range(41, 51):
        await pages.take(UnreadablePage(number, DAMAGED))
    assert pages.done == pages.total


async def test_what_earlier_attempts_could_not_read_counts_against_the_document(rig: Rig) -> None:
    job = await started(rig)

    async def next_attempt() -> PageDrafts:
        async with rig.database.begin(job.lease.tenant_id) as tx:
            numbers, unreadable = await tx.pages.drafted(job.lease.job_id), await tx.pages.unreadable(job.lease.job_id)
        assert unreadable == len(numbers)
        drafts = PageDrafts(rig.database, job.lease, language="eng", drafted=numbers, unreadable=unreadable)
        drafts.begin(range(1, 11))
        assert drafts.done == unreadable
        return drafts

    # Each attempt is put back for others after a page.
    for number in range(1, UNREADABLE_AT_FIRST + 1):
        await (await next_attempt()).take(UnreadablePage(number, DAMAGED))
    with pytest.raises(DocumentFault):
        await (await next_attempt()).take(UnreadablePage(9, DAMAGED))


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        (None, [1, 2, 3, 4, 5]),
        ("2", [2]),
        ("4-9,1", [1, 4, 5]),
        ("2-3,3,2", [2, 3]),
        ("3-2", [2, 3]),
        ("0-1", [1]),
        ("1-9999999", [1, 2, 3, 4, 5]),
    ],
)
def test_pages_are_chosen_by_numbers_and_ranges(asked: str | None, numbers: list[int]) -> None:
    assert chosen_pages(asked, page_count=5) == numbers


@pytest.mark.parametrize("asked", ["6", "7-9", "9-7", "0"])
def test_to_choose_none_is_a_fault(asked: str) -> None:
    with pytest.raises(DocumentFault, match="has 5 pages") as fault:
        chosen_pages(asked, page_count=5)
    assert fault.value.code == "empty"


def test_warnings_of_pages_are_gathered_by_code() -> None:
    hidden, large = WarningCode.HIDDEN_TEXT, WarningCode.RESOLUTION_REDUCED
    assert page_warnings({7: [hidden], 2: [large, hidden], 3: []}) == [
        DocumentWarning(code=hidden, detail=DETAILS[hidden], pages=(2, 7)),
        DocumentWarning(code=large, detail=DETAILS[large], pages=(2,)),
    ]
    many = page_warnings({number: [hidden] for number in range(1, 1_000)})
    assert many[0].pages == tuple(range(1, MOST_PAGES + 1))


def test_every_warning_says_what_it_means() -> None:
    assert set(DETAILS) == set(WarningCode)
    assert document_warning(WarningCode.SIGNED).detail == DETAILS[WarningCode.SIGNED]


class Dying(NullRecognizer):
    """A recognizer of five pages, one at a time, that dies on one of them the first time."""

    def __init__(self, *, dies_on: int, scanned: int = 6, clock: Clock | None = None) -> None:
        """`scanned` is the first page that needs recognition; with `clock` each page takes ten seconds."""
        super().__init__()
        self.scanned = scanned
        self.clock = clock
        self.read: list[int] = []
        self.opened: list[bool] = []
        self.dies_on = dies_on

    @override
    @asynccontextmanager
    async def open(
        self, path: Path, *, media_type: str, language: str, mode: Mode, recognition: bool = True
    ) -> AsyncIterator[OpenFile]:
        self.opened.append(recognition)
        assert path.is_absolute()
        assert (media_type, language, mode) == ("application/pdf", "eng", Mode.AUTO)
        yield _Five(self, recognition=recognition)


class _Five:
    page_count = 5
    warnings = (document_warning(WarningCode.SIGNED),)

    def __init__(self, recognizer: Dying, *, recognition: bool) -> None:
        self._recognizer = recognizer
        self._recognition = recognition

    async def pages(self, numbers: Iterable[int] | None = None) -> AsyncGenerator[Page | UnreadablePage]:
        for number in numbers or range(1, 6):
            if number == self._recognizer.dies_on:
                self._recognizer.dies_on = 0
                raise ConnectionResetError
            if number >= self._recognizer.scanned and not self._recognition:
                yield NeedsRecognition(number, DAMAGED)
                continue
            self._recognizer.read.append(number)
            if self._recognizer.clock is not None:
                self._recognizer.clock.now += 10
            yield replace(new_page(number), warnings=(WarningCode.LOW_CONFIDENCE,))


class Reports(list[Progress]):
    must_yield = False
    has_recognition = True

    def report(self, progress: Progress) -> None:
        self.append(progress)

    def begin_recognition(self) -> bool:
        return self.has_recognition


async def finished(rig: Rig, job: ClaimedJob, outcome: object) -> Document:
    assert isinstance(outcome, Done)
    assert outcome.apply is not None
    assert job.document_id is not None
    async with rig.database.begin(job.lease.tenant_id) as tx:
        assert await tx.jobs.settle(done(job.lease))
        await outcome.apply(tx)
        document = await tx.documents.get(job.document_id)
    assert document is not None
    return document


async def test_an_attempt_goes_on_where_the_last_one_died(rig: Rig) -> None:
    first = await started(rig)
    blobs, recognizer = MemoryBlobs(), Dying(dies_on=4)
    handler = OcrHandler(database=rig.database, blobs=blobs, recognizer=recognizer, metrics=Metrics())
    assert first.document_id is not None
    await blobs.put(blob_key(first.lease.tenant_id, first.document_id), _chunks())
    with pytest.raises(ConnectionResetError):
        await handler.run(first, Reports())
    assert await rig.settle(release(first.lease))
    second = await rig.claimed(await _job(rig, first))
    reports = Reports()
    document = await finished(rig, second, await handler.run(second, reports))
    assert recognizer.read == [1, 2, 3, 4, 5]
    assert [(report.done, report.total) for report in reports] == [(3, 5), (4, 5), (5, 5)]
    assert [page.number for page in await rig.pages(document)] == [1, 2, 3, 4, 5]
    assert document.page_count == 5
    assert [(warning.code, warning.pages) for warning in document.warnings] == [
        (WarningCode.SIGNED, ()),
        (WarningCode.LOW_CONFIDENCE, (1, 2, 3, 4, 5)),
    ]


async def test_pages_that_are_asked_for_are_read_and_the_others_stay(rig: Rig) -> None:
    job = await started(rig, payload={"pages": "2,4-9"})
    blobs, recognizer = MemoryBlobs(), Dying(dies_on=0)
    assert job.document_id is not None
    await blobs.put(blob_key(job.lease.tenant_id, job.document_id), _chunks())
    async with rig.database.begin(job.lease.tenant_id) as tx:
        await tx.pages.replace(job.document_id, [new_page(n, text="old") for n in range(1, 6)])
    handler = OcrHandler(database=rig.database, blobs=blobs, recognizer=recognizer, metrics=Metrics())
    document = await finished(rig, job, await handler.run(job, Reports()))
    assert recognizer.read == [2, 4, 5]
    assert [page.text for page in await rig.pages(document)] == ["old", "Dear Sir", "old", "Dear Sir", "Dear Sir"]
    assert document.page_count == 5


async def handler_of(rig: Rig, job: ClaimedJob, recognizer: Dying, **fields: Any) -> OcrHandler:
    blobs = MemoryBlobs()
    assert job.document_id is not None
    await blobs.put(blob_key(job.lease.tenant_id, job.document_id), _chunks())
    return OcrHandler(database=rig.database, blobs=blobs, recognizer=recognizer, metrics=Metrics(), **fields)


class Impatient(Reports):
    """Another tenant waits from when so many pages have been read."""

    def __init__(self, *, after: int) -> None:
        super().__init__()
        self.after = after

    @property
    @override
    def must_yield(self) -> bool:  # type: ignore[override]
        return len(self) > self.after


async def test_a_long_job_makes_room_after_a_page_and_goes_on_from_its_drafts(rig: Rig) -> None:
    job = await started(rig)
    recognizer = Dying(dies_on=0)
    handler = await handler_of(rig, job, recognizer, clock=Clock())
    read = []
    for _ in range(4):
        outcome = await handler.run(job, Impatient(after=0))
        assert outcome == Yield()
        assert await rig.settle(put_back(job.lease))
        read.append(len(recognizer.read))
        job = await rig.claimed(await _job(rig, job))
    assert read == [1, 2, 3, 4]
    document = await finished(rig, job, await handler.run(job, Impatient(after=0)))
    assert recognizer.read == [1, 2, 3, 4, 5]
    assert [page.number for page in await rig.pages(document)] == [1, 2, 3, 4, 5]
    row = await _job(rig, job)
    assert (row.failures, row.expiries, row.releases, row.attempts) == (0, 0, 0, 5)


async def test_a_job_without_a_recognition_slot_is_put_back_with_what_it_has_read(rig: Rig) -> None:
    job = await started(rig)
    recognizer = Dying(dies_on=0, scanned=3)
    handler = await handler_of(rig, job, recognizer)
    reports = Reports()
    reports.has_recognition = False
    assert await handler.run(job, reports) == Yield(recognition=True)
    assert (recognizer.opened, recognizer.read) == ([False], [1, 2])
    assert await drafted(rig, job) == {1, 2}
    assert await rig.settle(put_back(job.lease, recognition=True))
    job = await rig.claimed(await _job(rig, job))
    document = await finished(rig, job, await handler.run(job, Reports()))
    # The job is known to need recognition: it is not looked at without it again.
    assert (recognizer.opened, recognizer.read) == ([False, True], [1, 2, 3, 4, 5])
    assert len(await rig.pages(document)) == 5


async def test_a_scan_is_opened_for_recognition_when_a_page_turns_out_to_need_it(rig: Rig) -> None:
    job = await started(rig)
    recognizer = Dying(dies_on=0, scanned=2)
    document = await finished(rig, job, await (await handler_of(rig, job, recognizer)).run(job, Reports()))
    assert (recognizer.opened, recognizer.read) == ([False, True], [1, 2, 3, 4, 5])
    assert [page.number for page in await rig.pages(document)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("seconds", "outcome"), [(35, "done"), (5, "timeout")])
async def test_pages_beyond_the_time_for_a_document_are_reported_as_unreadable(
    rig: Rig, seconds: int, outcome: str
) -> None:
    job = await started(rig)
    clock = Clock()
    recognizer = Dying(dies_on=0, clock=clock)
    handler = await handler_of(rig, job, recognizer, longest=timedelta(seconds=seconds), clock=clock)
    if outcome == "timeout":
        with pytest.raises(DocumentFault) as fault:
            await handler.run(job, Reports())
        assert fault.value.code == "timeout"
        return
    document = await finished(rig, job, await handler.run(job, Reports()))
    assert recognizer.read == [1, 2, 3, 4]
    warned = {warning.code: warning.pages for warning in document.warnings}
    assert warned[WarningCode.PAGE_UNREADABLE] == (5,)


async def test_earlier_attempts_count_towards_the_time_for_a_document(rig: Rig) -> None:
    job = await started(rig)
    await rig.advance(timedelta(seconds=20))
    assert await rig.settle(put_back(job.lease))
    job = await rig.claimed(await _job(rig, job))
    clock = Clock()
    recognizer = Dying(dies_on=0, clock=clock)
    handler = await handler_of(rig, job, recognizer, longest=timedelta(seconds=55), clock=clock)
    document = await finished(rig, job, await handler.run(job, Reports()))
    assert recognizer.read == [1, 2, 3, 4]
    assert document.page_count == 5


async def _job(rig: Rig, claimed: ClaimedJob) -> Job:
    async with rig.database.begin(claimed.lease.tenant_id) as tx:
        job = await tx.jobs.get(claimed.lease.job_id)
    assert job is not None
    return job


async def _chunks() -> AsyncIterator[bytes]:
    yield b"bytes"
