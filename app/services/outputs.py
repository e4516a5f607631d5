"""What a document is handed out as: its own bytes, and its text in one of the formats."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.domain.documents import Document, blob_key
from app.domain.errors import Conflict, NotFound
from app.domain.formats.formats import Format
from app.domain.ids import DocumentId, TenantId
from app.domain.pages import Page
from app.ports.blobs import Blobs
from app.ports.database import Database
from app.services.documents import existing, ready

AT_A_TIME = 10
"""Half a megabyte of words, as a rule."""


async def in_batches(database: Database, document: Document) -> AsyncIterator[list[Page]]:
    """In order. Raises NotFound where the document is removed meanwhile: what was given by then is not the whole."""
    last = 0
    while True:
        async with database.begin(document.tenant_id) as tx:
            await existing(tx, document.id)
            pages = await tx.pages.some(document.id, after=last, limit=AT_A_TIME)
        if not pages:
            return
        yield pages
        last = pages[-1].number


async def part(blobs: Blobs, document: Document, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
    """From `start` up to, not including, `end`. Raises NotFound where they are gone."""
    try:
        async for chunk in blobs.get(blob_key(document.tenant_id, document.id), start=start, end=end):
            yield chunk
    except NotFound:
        raise NotFound("the document's bytes are gone") from None


async def whole(blobs: Blobs, document: Document) -> AsyncIterator[bytes]:
    """All of them. Raises Conflict ahead of the last ones where they are not those that were uploaded."""
    digest = hashlib.sha256()
    kept = b""
    async for chunk in part(blobs, document):
        digest.update(chunk)
        if kept:
            yield kept
        kept = chunk
    if digest.hexdigest() != document.sha256:
        raise Conflict("the stored bytes are not those that were uploaded: upload them again")
    if kept:
        yield kept


async def intact(blobs: Blobs, document: Document) -> bool:
    """Whether they are all there, and are those that were uploaded. Reads the whole of them."""
    try:
        async for _ in whole(blobs, document):
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
            return await existing(tx, document_id)

    async def read_document(self, tenant_id: TenantId, document_id: DocumentId) -> Document:
        """One whose text is there. Raises NotReady until it is, Conflict when it never will be."""
        async with self.database.begin(tenant_id) as tx:
            return await ready(tx, document_id)

    async def written(self, document: Document, form: Format) -> AsyncIterator[bytes]:
        """Raises NotFound midway where the document is removed: a half is never taken for the whole."""
        yield form.head(document).encode()
        async for pages in in_batches(self.database, document):
            for page in pages:
                yield form.page(page).encode()
                # A page takes some milliseconds: others have a turn in between.
                await asyncio.sleep(0)
        yield form.foot.encode()

    def original(self, document: Document) -> AsyncIterator[bytes]:
        return whole(self.blobs, document)

    def part(self, document: Document, *, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from `start` up to, not including, `end`."""
        return part(self.blobs, document, start=start, end=end)
