"""The `ocr` job: reads a document's pages with their text, from a text layer or by OCR."""

import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta

from pydantic import BaseModel, ConfigDict

from app.domain.documents import Document, blob_key
from app.domain.doorbells import TEXT_KIND
from app.domain.errors import AttemptOver, DocumentFault, NotFound, Unavailable
from app.domain.filetypes.types import IMAGES
from app.domain.ids import DocumentId
from app.domain.jobs import Job, Progress
from app.domain.leases import ClaimedJob
from app.domain.outcomes import DeliveryRings, Done, Outcome, Yield
from app.domain.pages import Page, chosen_pages
from app.domain.usage import UsageCounts
from app.domain.warnings import page_warnings
from app.handlers.page_drafts import PageDrafts
from app.ports.blobs import Blobs
from app.ports.database import Database, Tx
from app.ports.leases import ProgressReporter
from app.ports.reading import Mode, NeedsRecognition, OpenFile, Recognizer, UnreadablePage
from app.telemetry import Metrics
from app.temp_copies import local_copy


class OcrPayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    mode: Mode = Mode.AUTO
    language: str | None = None
    """None means the document's language."""
    pages: str | None = None
    """Pages such as `1-3,7`; the others stay unchanged. None means all."""


@dataclass(slots=True, kw_only=True)
class _Turn:
    """An attempt's turn at a document. It ends early where another tenant waits, or the time for the document is over.

    It then has read at least one page, and has read for at least as long as opening the document took.
    """

    reporter: ProgressReporter
    seconds_left: float
    """Seconds until the document has had its time, over all attempts."""
    clock: Callable[[], float]
    started_at: float = field(init=False)
    opened_at: float | None = None
    pages: int = 0
    needs_recognition: bool = False
    """True once a page has turned up that only OCR can read, in a file that was opened without it."""

    def __post_init__(self) -> None:
        self.started_at = self.clock()

    def begin(self) -> None:
        """Note that a file is open."""
        self.needs_recognition = False
        if self.opened_at is None:
            self.opened_at = self.clock()

    @property
    def is_late(self) -> bool:
        return self.clock() - self.started_at > self.seconds_left

    @property
    def is_over(self) -> bool:
        opened_at = self.started_at if self.opened_at is None else self.opened_at
        has_paid_off = self.pages > 0 and self.clock() - opened_at >= opened_at - self.started_at
        return self.reporter.must_yield and has_paid_off

    def numbers(self, wanted: Iterable[int]) -> Iterator[int]:
        """Yield the pages to be read as long as the turn lasts."""
        for number in wanted:
            if self.needs_recognition or self.is_over or self.is_late:
                return
            yield number


@dataclass(frozen=True, slots=True, kw_only=True)
class OcrHandler:
    database: Database
    blobs: Blobs
    recognizer: Recognizer
    metrics: Metrics
    longest: timedelta = timedelta(hours=6)
    """The time for a document, over all attempts. The pages not read by then are reported as unreadable."""
    clock: Callable[[], float] = time.monotonic
    kind: str = TEXT_KIND

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        payload = OcrPayload.model_validate(job.payload)
        document, row, drafted, unreadable = await self._found(job)
        language = payload.language or document.language
        turn = _Turn(reporter=reporter, seconds_left=(self.longest - row.worked).total_seconds(), clock=self.clock)
        drafting = PageDrafts(self.database, job.lease, language=language, drafted=drafted, unreadable=unreadable)
        file: OpenFile | None = None
        recognition = False
        async with local_copy(self._bytes(document)) as path:
            for recognition in _stages(document, payload, row):
                if recognition and not reporter.begin_recognition():
                    break
                async with self.recognizer.open(
                    path,
                    media_type=document.media_type,
                    language=language,
                    mode=payload.mode,
                    recognition=recognition,
                ) as file:
                    drafting.begin(chosen_pages(payload.pages, page_count=file.page_count))
                    await self._read(file, drafting, turn)
                if not turn.needs_recognition:
                    break
        if turn.is_late:
            drafting.give_up(_too_long(self.longest))
        if file is None or drafting.left:
            await drafting.keep()
            return Yield(recognition=recognition)
        return Done(_results(document, file, drafting, keep_others=payload.pages is not None))

    async def _read(self, file: OpenFile, drafting: PageDrafts, turn: _Turn) -> None:
        """Read the pages that are left, as far as the turn goes."""
        turn.begin()
        turn.reporter.report(_progress(drafting))
        async with aclosing(file.pages(turn.numbers(list(drafting.left)))) as pages:
            async for read in pages:
                if isinstance(read, NeedsRecognition):
                    turn.needs_recognition = True
                    continue
                await drafting.take(read)
                turn.pages += 1
                self._count(read)
                turn.reporter.report(_progress(drafting))

    async def _found(self, job: ClaimedJob) -> tuple[Document, Job, frozenset[int], int]:
        """Return the document, the job's row, the pages of earlier attempts, and how many of them are unreadable."""
        async with self.database.begin(job.lease.tenant_id) as tx:
            document = await tx.documents.get(DocumentId(job.document_id)) if job.document_id is not None else None
            row = await tx.jobs.get(job.lease.job_id)
            if document is None or row is None:
                raise AttemptOver("the document was deleted")
            drafted = await tx.pages.drafted(job.lease.job_id)
            return document, row, drafted, await tx.pages.unreadable(job.lease.job_id)

    def _count(self, read: Page | UnreadablePage) -> None:
        self.metrics.pages_read.labels(read.source if isinstance(read, Page) else "unreadable").inc()

    async def _bytes(self, document: Document) -> AsyncIterator[bytes]:
        """Yield the document's bytes.

        Raises Unavailable where they are missing. Raises DocumentFault at the end where they are not the bytes that
        were uploaded, so that no reader gets a whole wrong file.
        """
        digest = hashlib.sha256()
        try:
            async for chunk in self.blobs.get(blob_key(document.tenant_id, document.id)):
                digest.update(chunk)
                yield chunk
        except NotFound:
            raise Unavailable("the document's bytes are lost: upload them again", public=True) from None
        if digest.hexdigest() != document.sha256:
            raise DocumentFault("corrupt", "the stored bytes are not those that were uploaded: upload them again")


def _stages(document: Document, payload: OcrPayload, job: Job) -> tuple[bool, ...]:
    """Return the ways in which the file is opened, one after the other: without OCR, and with it."""
    needs_it = document.media_type in IMAGES or payload.mode is Mode.FORCE or job.recognition
    return (True,) if needs_it and payload.mode is not Mode.SKIP else (False, True)


def _results(
    document: Document, file: OpenFile, drafting: PageDrafts, *, keep_others: bool
) -> Callable[[Tx], Awaitable[DeliveryRings]]:
    async def apply(tx: Tx) -> DeliveryRings:
        await tx.pages.replace(document.id, drafting.in_hand, drafts_of=drafting.job_id, keep_others=keep_others)
        warnings = [*file.warnings, *page_warnings(await tx.pages.warnings(document.id))]
        await tx.documents.set_read(document.id, page_count=file.page_count, warnings=warnings)
        await tx.search.index(document.id)
        await tx.usage.add(UsageCounts(pages=drafting.total))
        return await tx.jobs.wake(document.id)

    return apply


def _too_long(longest: timedelta) -> DocumentFault:
    hours = f"{longest.total_seconds() / 3600:g} hours"
    return DocumentFault("timeout", f"Reading the document took over {hours}: split it.")


def _progress(drafting: PageDrafts) -> Progress:
    return Progress(done=drafting.done, total=drafting.total, unit="page")
