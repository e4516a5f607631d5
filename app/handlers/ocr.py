"""The `ocr` job: a document's pages with their text, whatever they are read from."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from app.domain.documents import Document, blob_key
from app.domain.errors import DocumentFault, NotFound
from app.domain.ids import DocumentId
from app.domain.jobs import JobError, Progress
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Fail, Outcome
from app.domain.pages import Page
from app.handlers.copies import local_copy
from app.ports.blobs import Blobs
from app.ports.database import Database, Tx
from app.ports.handlers import Reporter
from app.ports.ocr import Mode, Recognizer

MOST_WORDS = 1_000_000
"""Of a document, which is held whole until its pages are written together: some 400 MB."""


class OcrPayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    mode: Mode = Mode.AUTO
    language: str | None = None
    """None: the document's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OcrHandler:
    database: Database
    blobs: Blobs
    recognizer: Recognizer
    kind: str = "ocr"

    async def run(self, job: ClaimedJob, reporter: Reporter) -> Outcome:
        payload = OcrPayload.model_validate(job.payload)
        document = await self._document(job)
        if document is None:
            return Fail(JobError(code="internal", message="the document was deleted"))
        pages = await self._read(document, payload, reporter)

        async def apply(tx: Tx) -> None:
            await tx.pages.replace(document.id, pages)
            await tx.documents.set_page_count(document.id, len(pages))

        return Done(apply)

    async def _document(self, job: ClaimedJob) -> Document | None:
        async with self.database.begin(job.lease.tenant_id) as tx:
            return None if job.document_id is None else await tx.documents.get(DocumentId(job.document_id))

    async def _read(self, document: Document, payload: OcrPayload, reporter: Reporter) -> list[Page]:
        language = payload.language or document.language
        pages: list[Page] = []
        async with (
            local_copy(self._bytes(document)) as path,
            self.recognizer.open(path, media_type=document.media_type, language=language, mode=payload.mode) as file,
        ):
            reporter.report(Progress(done=0, total=file.page_count, unit="page"))
            words = 0
            async for page in file.pages():
                pages.append(page)
                words += len(page.words)
                if words > MOST_WORDS:
                    raise DocumentFault("too_large", f"the document has more than {MOST_WORDS:,} words: split it")
                reporter.report(Progress(done=len(pages), total=file.page_count, unit="page"))
        return pages

    async def _bytes(self, document: Document) -> AsyncIterator[bytes]:
        """Those that were uploaded and checked, or none that a reader gets to see as a whole."""
        digest = hashlib.sha256()
        try:
            async for chunk in self.blobs.get(blob_key(document.tenant_id, document.id)):
                digest.update(chunk)
                yield chunk
        except NotFound:
            raise FileNotFoundError("the document's bytes are not in the blob store") from None
        if digest.hexdigest() != document.sha256:
            raise DocumentFault("corrupt", "the stored bytes are not those that were uploaded: upload them again")
