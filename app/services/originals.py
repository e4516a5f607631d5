"""A document's bytes as they were uploaded, or none that anybody takes for them."""

import hashlib
from collections.abc import AsyncIterator

from app.domain.documents import Document, blob_key
from app.domain.errors import Conflict, NotFound
from app.ports.blobs import Blobs


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
