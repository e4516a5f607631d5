"""Pages in the memory store."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.adapters.memory.store import Session
from app.domain.errors import NotFound
from app.domain.ids import DocumentId, JobId
from app.domain.jobs import JobState
from app.domain.leases import Lease
from app.domain.pages import Page
from app.domain.text import scrub
from app.domain.warnings import WarningCode


class MemoryPages:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def replace(
        self,
        document_id: DocumentId,
        new: Sequence[Page],
        *,
        drafts_of: JobId | None = None,
        keep_others: bool = False,
    ) -> None:
        tables = await self._session.writing()
        if document_id not in tables.documents:
            raise NotFound(f"there is no document {document_id}")
        pages = {page.number: page for page in tables.pages.get(document_id, ())} if keep_others else {}
        pages |= tables.drafts.pop(drafts_of, {}) if drafts_of is not None else {}
        pages |= {page.number: _scrubbed(page) for page in new}
        tables.pages[document_id] = tuple(pages[number] for number in sorted(pages))

    async def draft(self, lease: Lease, new: Sequence[Page]) -> bool:
        tables = await self._session.writing()
        row = tables.jobs.get(lease.job_id)
        if row is None or row.job.state is not JobState.CLAIMED or row.job.attempts != lease.attempt:
            return False
        known = tables.drafts.get(lease.job_id, {})
        tables.drafts[lease.job_id] = {page.number: _scrubbed(page) for page in new} | known
        return True

    async def drafted(self, job_id: JobId) -> frozenset[int]:
        return frozenset(self._session.reading().drafts.get(job_id, ()))

    async def all(self, document_id: DocumentId) -> list[Page]:
        return [replace(page, words=()) for page in self._session.reading().pages.get(document_id, ())]

    async def get(self, document_id: DocumentId, number: int) -> Page | None:
        pages = self._session.reading().pages.get(document_id, ())
        return next((page for page in pages if page.number == number), None)

    async def some(self, document_id: DocumentId, *, after: int, limit: int) -> list[Page]:
        pages = self._session.reading().pages.get(document_id, ())
        return [page for page in pages if page.number > after][:limit]

    async def warnings(self, document_id: DocumentId) -> Mapping[int, Sequence[WarningCode]]:
        pages = self._session.reading().pages.get(document_id, ())
        return {page.number: page.warnings for page in pages if page.warnings}


def _scrubbed(page: Page) -> Page:
    words = tuple(replace(word, text=scrub(word.text)) for word in page.words)
    return replace(page, text=scrub(page.text), language=scrub(page.language), words=words)
