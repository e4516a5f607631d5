"""Reads documents, and removes them with all that belongs to them."""

import json
from dataclasses import dataclass
from datetime import datetime

from app.domain.documents import JOBS_SHOWN, Document, DocumentCursor, DocumentStatus, blob_key, document_status
from app.domain.errors import Conflict, NotFound, NotReady
from app.domain.ids import DocumentId, TenantId
from app.domain.jobs import Job
from app.domain.pages import Page
from app.ports.blobs import Blobs
from app.ports.database import Database, Tx

LAST_PAGE = 2**31 - 1
"""The greatest number that a page can have in every store."""

AT_A_TIME = 21
"""Documents that a listing reads in one step: the default page, and the one that shows that there are more."""

MOST_METADATA = 256 * 1024
"""Bytes of metadata, about, after which a page of a listing ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentListing:
    document: Document
    jobs: list[Job]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentService:
    database: Database
    blobs: Blobs

    async def get(self, tenant_id: TenantId, document_id: DocumentId) -> DocumentListing:
        async with self.database.begin(tenant_id) as tx:
            document = await existing_document(tx, document_id)
            return DocumentListing(document=document, jobs=await jobs_shown(tx, document_id))

    async def newest(
        self,
        tenant_id: TenantId,
        *,
        limit: int,
        before: DocumentCursor | None = None,
        status: DocumentStatus | None = None,
        filename: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        sha256: str | None = None,
    ) -> tuple[list[DocumentListing], bool]:
        """Return documents, newest first, and True if there are more.

        They are fewer than `limit` where their metadata is large: an answer is built in memory.
        """
        documents: list[Document] = []
        room, wanted = MOST_METADATA, limit + 1
        async with self.database.begin(tenant_id) as tx:
            while room > 0 and len(documents) < wanted:
                asked = min(AT_A_TIME, wanted - len(documents))
                found = await tx.documents.newest(
                    limit=asked,
                    before=before,
                    status=status,
                    filename=filename,
                    created_after=created_after,
                    created_before=created_before,
                    sha256=sha256,
                )
                documents += found
                if len(found) < asked:
                    wanted = 0
                    break
                before = DocumentCursor(created_at=found[-1].created_at, id=found[-1].id)
                room -= sum(len(json.dumps(document.metadata)) for document in found if document.metadata)
            # The last one only shows that there are more.
            more = wanted > 0
            shown = documents[:-1] if more else documents
            jobs = await tx.jobs.of_documents([document.id for document in shown], each=JOBS_SHOWN + 1)
        return [
            DocumentListing(document=document, jobs=[job for job in jobs if job.document_id == document.id])
            for document in shown
        ], more

    async def page(self, tenant_id: TenantId, document_id: DocumentId, number: int) -> Page:
        async with self.database.begin(tenant_id) as tx:
            await ready_document(tx, document_id)
            # A store's integer is bounded, a caller's number is not.
            page = await tx.pages.get(document_id, number) if 0 < number <= LAST_PAGE else None
        if page is None:
            raise NotFound("there is no such page")
        return page

    async def remove(self, tenant_id: TenantId, document_id: DocumentId) -> None:
        """Remove the rows, then the bytes, so that no row is ever left without its bytes.

        Work on the document's jobs stops with the next beat.
        """
        async with self.database.begin(tenant_id) as tx:
            removed = await tx.documents.remove(document_id)
        # Also when there was no row: an earlier call may have failed between the two.
        await self.blobs.delete(blob_key(tenant_id, document_id))
        if not removed:
            raise NotFound("there is no such document")


async def jobs_shown(tx: Tx, document_id: DocumentId) -> list[Job]:
    """Return the jobs that come with the document, and one more if there are more."""
    return await tx.jobs.of_documents([document_id], each=JOBS_SHOWN + 1)


async def existing_document(tx: Tx, document_id: DocumentId) -> Document:
    document = await tx.documents.get(document_id)
    if document is None:
        raise NotFound("there is no such document")
    return document


async def ready_document(tx: Tx, document_id: DocumentId) -> Document:
    """Return the document. Raises NotReady until its text is there, Conflict if it never will be."""
    document = await existing_document(tx, document_id)
    match document_status(document, jobs := await jobs_shown(tx, document_id)):
        case DocumentStatus.READY:
            return document
        case DocumentStatus.PROCESSING:
            raise NotReady("the text is not ready yet; wait for the document's ocr job")
        case DocumentStatus.FAILED:
            reason = next((f"{job.error.code}: {job.error.message}" for job in jobs if job.error), "no job read it")
            raise Conflict(f"the document has no text ({reason})")
