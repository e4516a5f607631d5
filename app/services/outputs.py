"""What a document is handed out as: its own bytes, and its text in one of the formats."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.domain.documents import Document
from app.domain.formats import Format
from app.domain.ids import DocumentId, TenantId
from app.ports.blobs import Blobs
from app.ports.database import Database
from app.services import originals
from app.services.documents import existing, ready
from app.services.pages import in_batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
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
        return originals.whole(self.blobs, document)

    def part(self, document: Document, *, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from `start` up to, not including, `end`."""
        return originals.part(self.blobs, document, start=start, end=end)
