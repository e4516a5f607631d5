"""Downloads of a document: its original bytes, checked by their hash, or its text as hOCR, ALTO or Markdown.

Pages are read in batches, each in its own transaction: a slow client holds neither memory nor a transaction.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.domain.documents import Document, blob_key
from app.domain.errors import Conflict, NotFound
from app.domain.formats.formats import TextFormat
from app.domain.ids import DocumentId, TenantId
from app.domain.pages import Page
from app.ports.blobs import Blobs
from app.ports.database import Database
from app.services.documents import existing_document, ready_document

PAGES_AT_A_TIME = 10
"""Pages in one batch; usually half a megabyte of words."""

TEXTS_AT_A_TIME = 50
"""Pages without their words in one batch."""


async def pages_in_batches(database: Database, document: Document, *, words: bool = True) -> AsyncIterator[list[Page]]:
    """Yield the pages in order. Raises NotFound if the document is removed meanwhile."""
    limit = PAGES_AT_A_TIME if words else TEXTS_AT_A_TIME
    last = 0
    while True:
        async with database.begin(document.tenant_id) as tx:
            await existing_document(tx, document.id)
            pages = await tx.pages.some(document.id, after=last, limit=limit, words=words)
        if not pages:
            return
        yield pages
        last = pages[-1].number


async def read_part(
    blobs: Blobs, document: Document, *, start: int = 0, end: int | None = None
) -> AsyncIterator[bytes]:
    """Yield the bytes from `start` up to, not including, `end`. Raises NotFound if they are gone."""
    try:
        async for chunk in blobs.get(blob_key(document.tenant_id, document.id), start=start, end=end):
            yield chunk
    except NotFound:
        raise NotFound("the document's bytes are gone") from None


async def read_verified(blobs: Blobs, document: Document) -> AsyncIterator[bytes]:
    """Yield all bytes. Raises Conflict before the last chunk if they are not those that were uploaded."""
    digest = hashlib.sha256()
    previous = b""
    async for chunk in read_part(blobs, document):
        digest.update(chunk)
        if previous:
            yield previous
        previous = chunk
    if digest.hexdigest() != document.sha256:
        raise Conflict("the stored bytes are not those that were uploaded; upload them again")
    if previous:
        yield previous


async def is_intact(blobs: Blobs, document: Document) -> bool:
    """Return True if the bytes are those that were uploaded. Reads all of them."""
    try:
        async for _ in read_verified(blobs, document):
            pass
    except (NotFound, Conflict):
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputService:
    database: Database
    blobs: Blobs

    async def document(self, tenant_id: TenantId, document_id: DocumentId) -> Document:
        async with self.database.begin(tenant_id) as tx:
            return await existing_document(tx, document_id)

    async def read_document(self, tenant_id: TenantId, document_id: DocumentId) -> Document:
        """Return a document whose text is there. Raises NotReady until it is, Conflict if it never will be."""
        async with self.database.begin(tenant_id) as tx:
            return await ready_document(tx, document_id)

    async def written(self, document: Document, form: TextFormat) -> AsyncIterator[bytes]:
        """Yield the text in this format. Raises NotFound midway if the document is removed, so no part looks whole."""
        yield form.head(document).encode()
        async for pages in pages_in_batches(self.database, document):
            for page in pages:
                yield form.page(page).encode()
                # A page takes some milliseconds: let other tasks run in between.
                await asyncio.sleep(0)
        yield form.foot.encode()

    async def text(self, document: Document) -> AsyncIterator[bytes]:
        """Yield the text of all pages, separated by form feeds."""
        separator = ""
        async for page in self.pages(document):
            yield (separator + page.text).encode()
            separator = "\f"

    async def pages(self, document: Document) -> AsyncIterator[Page]:
        """Yield the pages without their words, in order."""
        async for pages in pages_in_batches(self.database, document, words=False):
            for page in pages:
                yield page

    def original(self, document: Document) -> AsyncIterator[bytes]:
        return read_verified(self.blobs, document)

    def part(self, document: Document, *, start: int, end: int) -> AsyncIterator[bytes]:
        """Yield the bytes from `start` up to, not including, `end`."""
        return read_part(self.blobs, document, start=start, end=end)
