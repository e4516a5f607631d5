"""The `ocr` job: reads a document's pages with their text, from a text layer or by OCR."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from app.domain.documents import Document, blob_key
from app.domain.doorbells import TEXT_KIND
from app.domain.errors import AttemptOver, DocumentFault, NotFound, Unavailable
from app.domain.ids import DocumentId
from app.domain.jobs import Progress
from app.domain.leases import ClaimedJob
from app.domain.outcomes import DeliveryRings, Done, Outcome
from app.domain.pages import Page, chosen_pages
from app.domain.usage import UsageCounts
from app.domain.warnings import page_warnings
from app.handlers.page_drafts import PageDrafts
from app.ports.blobs import Blobs
from app.ports.database import Database, Tx
from app.ports.leases import ProgressReporter
from app.ports.reading import Mode, Recognizer, UnreadablePage
from app.telemetry import Metrics
from app.temp_copies import local_copy


class OcrPayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    mode: Mode = Mode.AUTO
    language: str | None = None
    """None means the document's language."""
    pages: str | None = None
    """Pages such as `1-3,7`; the others stay unchanged. None means all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OcrHandler:
    database: Database
    blobs: Blobs
    recognizer: Recognizer
    metrics: Metrics
    kind: str = TEXT_KIND

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        payload = OcrPayload.model_validate(job.payload)
        document, drafted = await self._found(job)
        language = payload.language or document.language
        async with (
            local_copy(self._bytes(document)) as path,
            self.recognizer.open(path, media_type=document.media_type, language=language, mode=payload.mode) as file,
        ):
            wanted = chosen_pages(payload.pages, page_count=file.page_count)
            drafting = PageDrafts(
                self.database,
                job.lease,
                language=language,
                total=len(wanted),
                drafted=sum(number in drafted for number in wanted),
            )
            reporter.report(_progress(drafting))
            async with aclosing(file.pages(number for number in wanted if number not in drafted)) as pages:
                async for read in pages:
                    await drafting.take(read)
                    self._count(read)
                    reporter.report(_progress(drafting))

        async def apply(tx: Tx) -> DeliveryRings:
            await tx.pages.replace(
                document.id, drafting.in_hand, drafts_of=job.lease.job_id, keep_others=payload.pages is not None
            )
            warnings = [*file.warnings, *page_warnings(await tx.pages.warnings(document.id))]
            await tx.documents.set_read(document.id, page_count=file.page_count, warnings=warnings)
            await tx.search.index(document.id)
            await tx.usage.add(UsageCounts(pages=drafting.total))
            return await tx.jobs.wake(document.id)

        return Done(apply)

    async def _found(self, job: ClaimedJob) -> tuple[Document, frozenset[int]]:
        """Return the document, and the pages that earlier attempts have read."""
        async with self.database.begin(job.lease.tenant_id) as tx:
            document = await tx.documents.get(DocumentId(job.document_id)) if job.document_id is not None else None
            if document is None:
                raise AttemptOver("the document was deleted")
            return document, await tx.pages.drafted(job.lease.job_id)

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


def _progress(drafting: PageDrafts) -> Progress:
    return Progress(done=drafting.done, total=drafting.total, unit="page")
