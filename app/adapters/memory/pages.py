"""Pages in the memory store."""

from collections.abc import Sequence
from dataclasses import replace

from app.adapters.memory.store import Session
from app.domain.errors import NotFound
from app.domain.ids import DocumentId
from app.domain.pages import Page
from app.domain.text import scrub


class MemoryPages:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def replace(self, document_id: DocumentId, pages: Sequence[Page]) -> None:
        tables = await self._session.writing()
        if document_id not in tables.documents:
            raise NotFound(f"there is no document {document_id}")
        tables.pages[document_id] = tuple(sorted(map(_scrubbed, pages), key=lambda page: page.number))

    async def all(self, document_id: DocumentId) -> list[Page]:
        return [replace(page, words=()) for page in self._session.reading().pages.get(document_id, ())]

    async def get(self, document_id: DocumentId, number: int) -> Page | None:
        pages = self._session.reading().pages.get(document_id, ())
        return next((page for page in pages if page.number == number), None)


def _scrubbed(page: Page) -> Page:
    words = tuple(replace(word, text=scrub(word.text)) for word in page.words)
    return replace(page, text=scrub(page.text), language=scrub(page.language), words=words)
