"""Page images and searchable PDFs, rendered from a document on request."""

import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import IO

from app.domain.documents import Document
from app.domain.errors import Conflict, DocumentFault
from app.ports.blobs import Blobs
from app.ports.database import Database
from app.ports.reading import Renderer
from app.services import outputs
from app.services.fair_queue import FairSemaphore
from app.services.outputs import pages_in_batches

IN_MEMORY = 1 << 20
"""Bytes; a larger result waits on disk, because its client may be slow."""


class Rendition:
    """A rendered file. The caller closes it, which ends the tenant's request."""

    def __init__(self, file: IO[bytes], *, leave: Callable[[], None]) -> None:
        self.file = file
        self.size = file.tell()
        self._leave: Callable[[], None] | None = leave
        file.seek(0)

    def close(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            self.file.close()
            leave()


@dataclass(frozen=True, slots=True, kw_only=True)
class RenditionService:
    """Renders documents, tenants in turn.

    Raises Conflict for a document that can't be rendered, TooMany at the tenant's limit, and Unavailable if the queue
    is full or the wait too long.
    """

    database: Database
    blobs: Blobs
    renderer: Renderer
    turns: FairSemaphore

    def page_image_tag(self, document: Document, number: int, *, width: int) -> str:
        """Return the image's ETag: images with other bytes have other tags."""
        return f"{document.sha256[:32]}-{number}-{width}-{self.renderer.version}"

    async def page_image(self, document: Document, number: int, *, width: int) -> Rendition:
        """Render a page as PNG, `width` pixels wide. Raises NotFound if the document has no such page."""
        content, media_type = outputs.read_verified(self.blobs, document), document.media_type
        return await self._made(
            document,
            lambda into: self.renderer.page_image(
                content, media_type=media_type, number=number, width=width, into=into
            ),
        )

    async def searchable(self, document: Document) -> Rendition:
        """Render a searchable PDF. The document's text must be there."""
        content, media_type = outputs.read_verified(self.blobs, document), document.media_type
        pages = pages_in_batches(self.database, document)

        async def write(into: IO[bytes]) -> None:
            await self.renderer.searchable(content, media_type=media_type, pages=pages, into=into)

        return await self._made(document, write)

    async def _made(self, document: Document, make: Callable[[IO[bytes]], Awaitable[None]]) -> Rendition:
        if not self.renderer.renders(document.media_type):
            raise Conflict(f"a document of the type {document.media_type} has text, but no pages to render")
        tenant_id = document.tenant_id
        self.turns.enter(tenant_id)
        # The result outlives the turn: a slow client keeps no other request waiting.
        file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed with the rendition
        try:
            async with self.turns.turn(tenant_id):
                await make(file)
        except BaseException as error:
            file.close()
            self.turns.leave(tenant_id)
            if isinstance(error, DocumentFault):
                raise Conflict(f"the document can't be rendered ({error.code}): {error}") from error
            raise
        return Rendition(file, leave=lambda: self.turns.leave(tenant_id))
