"""A document's pages with their words, some at a time: who takes them slowly holds neither memory nor a transaction."""

from collections.abc import AsyncIterator

from app.domain.documents import Document
from app.domain.pages import Page
from app.ports.database import Database
from app.services.documents import existing

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
