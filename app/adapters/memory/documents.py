"""Documents in the memory store, with their pages, search, answers and usage.

Search compares words in lower case, without stemming or stop words.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import date, datetime

from app.adapters.memory.store import MemorySession, TenantTables
from app.domain.documents import Document, DocumentCursor, DocumentStatus, document_status
from app.domain.errors import Conflict, NotFound
from app.domain.ids import DocumentId, JobId
from app.domain.jobs import JobState
from app.domain.leases import Lease
from app.domain.llm.kept_answers import KeptAnswer
from app.domain.pages import Page
from app.domain.search import (
    CLOSE,
    OPEN,
    SearchAlternative,
    SearchHit,
    SearchPosition,
    SearchQuery,
    SearchResults,
    SearchTerm,
)
from app.domain.text import scrub, scrub_mapping
from app.domain.usage import DailyUsage, UsageCounts, total_usage
from app.domain.warnings import DocumentWarning, WarningCode


class MemoryDocuments:
    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def add(self, document: Document) -> Document | None:
        self._session.check_owner(document.tenant_id)
        tables = await self._session.writing()
        tables.require_tenant()
        if _with_bytes(tables, document.sha256):
            return None
        if document.id in tables.documents:
            raise Conflict(f"document {document.id} exists already")
        tables.documents[document.id] = _scrubbed_document(document)
        return _copied(tables.documents[document.id])

    async def get(self, document_id: DocumentId) -> Document | None:
        return _copied(self._session.reading().documents.get(document_id))

    async def with_bytes(self, sha256: str) -> Document | None:
        return _copied(_with_bytes(await self._session.writing(), sha256))

    async def newest(
        self,
        *,
        limit: int,
        before: DocumentCursor | None = None,
        status: DocumentStatus | None = None,
        filename: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        sha256: str | None = None,
    ) -> list[Document]:
        tables = self._session.reading()
        found = [
            deepcopy(document)
            for document in tables.documents.values()
            if (before is None or _place(document) < _place(before))
            and (status is None or _status(tables, document) is status)
            and (filename is None or filename.lower() in document.filename.lower())
            and _between(document, after=created_after, before=created_before)
            and sha256 in {None, document.sha256}
        ]
        return sorted(found, key=_place, reverse=True)[:limit]

    async def known(self, document_ids: Sequence[DocumentId]) -> set[DocumentId]:
        return self._session.reading().documents.keys() & set(document_ids)

    async def set_read(
        self, document_id: DocumentId, *, page_count: int, warnings: Sequence[DocumentWarning] = ()
    ) -> bool:
        documents = (await self._session.writing()).documents
        document = documents.get(document_id)
        if document is None:
            return False
        documents[document_id] = replace(
            document, page_count=page_count, warnings=tuple(map(_scrubbed_warning, warnings))
        )
        return True

    async def remove(self, document_id: DocumentId) -> bool:
        tables = await self._session.writing()
        if tables.documents.pop(document_id, None) is None:
            return False
        tables.pages.pop(document_id, None)
        tables.indexed.pop(document_id, None)
        for key in [key for key, row in tables.idempotency_keys.items() if row.document_id == document_id]:
            del tables.idempotency_keys[key]
        for job_id in [row.job.id for row in tables.jobs.values() if row.job.document_id == document_id]:
            del tables.jobs[job_id]
            tables.attempts.pop(job_id, None)
            tables.drafts.pop(job_id, None)
            tables.answers.pop(job_id, None)
        return True


def _with_bytes(tables: TenantTables, sha256: str) -> Document | None:
    return next((document for document in tables.documents.values() if document.sha256 == sha256), None)


def _place(position: Document | DocumentCursor) -> tuple[datetime, DocumentId]:
    return position.created_at, position.id


def _status(tables: TenantTables, document: Document) -> DocumentStatus:
    return document_status(document, [row.job for row in tables.jobs.values() if row.job.document_id == document.id])


def _between(document: Document, *, after: datetime | None, before: datetime | None) -> bool:
    return (after is None or after < document.created_at) and (before is None or document.created_at < before)


def _scrubbed_warning(warning: DocumentWarning) -> DocumentWarning:
    return replace(warning, detail=scrub(warning.detail))


def _scrubbed_document(document: Document) -> Document:
    return replace(
        document,
        filename=scrub(document.filename),
        media_type=scrub(document.media_type),
        language=scrub(document.language),
        metadata=scrub_mapping(document.metadata),
    )


def _copied(document: Document | None) -> Document | None:
    """A copy, because a caller could change the metadata."""
    return deepcopy(document)


class MemoryPages:
    def __init__(self, session: MemorySession) -> None:
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
        pages |= {page.number: _scrubbed_page(page) for page in new}
        tables.pages[document_id] = tuple(pages[number] for number in sorted(pages))

    async def draft(self, lease: Lease, new: Sequence[Page]) -> bool:
        tables = await self._session.writing()
        row = tables.jobs.get(lease.job_id)
        if row is None or row.job.state is not JobState.CLAIMED or row.job.attempts != lease.attempt:
            return False
        known = tables.drafts.get(lease.job_id, {})
        tables.drafts[lease.job_id] = {page.number: _scrubbed_page(page) for page in new} | known
        return True

    async def drafted(self, job_id: JobId) -> frozenset[int]:
        return frozenset(self._session.reading().drafts.get(job_id, ()))

    async def unreadable(self, job_id: JobId) -> int:
        drafts = self._session.reading().drafts.get(job_id, {}).values()
        return sum(WarningCode.PAGE_UNREADABLE in page.warnings for page in drafts)

    async def all(self, document_id: DocumentId) -> list[Page]:
        return [replace(page, words=()) for page in self._session.reading().pages.get(document_id, ())]

    async def get(self, document_id: DocumentId, number: int) -> Page | None:
        pages = self._session.reading().pages.get(document_id, ())
        return next((page for page in pages if page.number == number), None)

    async def some(self, document_id: DocumentId, *, after: int, limit: int, words: bool = True) -> list[Page]:
        pages = self._session.reading().pages.get(document_id, ()) if words else await self.all(document_id)
        return [page for page in pages if page.number > after][:limit]

    async def warnings(self, document_id: DocumentId) -> Mapping[int, Sequence[WarningCode]]:
        pages = self._session.reading().pages.get(document_id, ())
        return {page.number: page.warnings for page in pages if page.warnings}


def _scrubbed_page(page: Page) -> Page:
    words = tuple(replace(word, text=scrub(word.text)) for word in page.words)
    return replace(page, text=scrub(page.text), language=scrub(page.language), words=words)


_SEARCH_WORD = re.compile(r"\w+")
_SNIPPET_MARGIN = 80
"""Characters of a snippet before the first word found, and after it."""


class MemorySearch:
    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def index(self, document_id: DocumentId, *, only_new: bool = False) -> bool:
        tables = await self._session.writing()
        if document_id not in tables.documents or (only_new and document_id in tables.indexed):
            return False
        tables.indexed[document_id] = tables.pages.get(document_id, ())
        return True

    async def unindexed(self, *, limit: int, after: DocumentId | None = None) -> list[DocumentId]:
        tables = self._session.reading()
        found = [
            document.id
            for document in tables.documents.values()
            if document.page_count is not None and document.id not in tables.indexed
        ]
        return sorted(found_id for found_id in found if after is None or found_id > after)[:limit]

    async def find(
        self,
        query: SearchQuery,
        *,
        limit: int,
        after: SearchPosition | None = None,
        document_id: DocumentId | None = None,
    ) -> SearchResults:
        tables = self._session.reading()
        hits = [
            hit
            for found_id, pages in tables.indexed.items()
            if document_id in {None, found_id}
            for page in pages
            if (hit := _hit(query, page, found_id, tables.documents[found_id].filename))
        ]
        hits.sort(key=lambda hit: _order(_place_of(hit)))
        rest = [hit for hit in hits if after is None or _order(_place_of(hit)) > _order(after)]
        return SearchResults(hits=rest[:limit], more=_place_of(rest[limit - 1]) if len(rest) > limit else None)


def _hit(query: SearchQuery, page: Page, document_id: DocumentId, filename: str) -> SearchHit | None:
    text = unicodedata.normalize("NFKC", page.text).replace(OPEN, " ").replace(CLOSE, " ")
    words = _words(text)
    fitting = [each for each in query.alternatives if _fits(each, words)]
    if not fitting:
        return None
    wanted = {word for each in fitting for term in each.terms if not term.excluded for word in _words(term.text)}
    times = sum(word in wanted for word in words)
    return SearchHit(
        document_id=document_id,
        filename=filename,
        page=page.number,
        rank=max(1, 1000 * times // (times + 1 + len(words) // 300)),
        snippet=_snippet(text, wanted),
    )


def _fits(alternative: SearchAlternative, words: Sequence[str]) -> bool:
    return all(_has(term, words) is not term.excluded for term in alternative.terms)


def _has(term: SearchTerm, words: Sequence[str]) -> bool:
    wanted = _words(term.text)
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words)))


def _words(text: str) -> list[str]:
    return _SEARCH_WORD.findall(text.lower())


def _snippet(text: str, wanted: set[str]) -> str:
    marked = _SEARCH_WORD.sub(lambda word: f"{OPEN}{word[0]}{CLOSE}" if word[0].lower() in wanted else word[0], text)
    first = marked.find(OPEN)
    return marked[max(0, first - _SNIPPET_MARGIN) : marked.find(CLOSE, first + _SNIPPET_MARGIN) + 1 or None]


def _place_of(hit: SearchHit) -> SearchPosition:
    return SearchPosition(rank=hit.rank, document_id=hit.document_id, page=hit.page)


def _order(place: SearchPosition) -> tuple[int, int, int]:
    return -place.rank, -place.document_id.int, place.page


class MemoryUsage:
    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def add(self, used: UsageCounts) -> None:
        if used:
            tables = await self._session.writing()
            tables.require_tenant()
            tables.usage = (*tables.usage, DailyUsage(day=self._session.now().date(), used=used))

    async def by_day(self, first: date, last: date) -> Sequence[DailyUsage]:
        return [each for each in _folded(self._session.reading().usage) if first <= each.day <= last]

    async def fold(self, *, before: date) -> int:
        tables = await self._session.writing()
        over = [each for each in tables.usage if each.day < before]
        folded = _folded(over)
        tables.usage = (*folded, *(each for each in tables.usage if each.day >= before))
        return len(over) - len(folded)


def _folded(rows: Sequence[DailyUsage]) -> list[DailyUsage]:
    days = sorted({each.day for each in rows})
    return [DailyUsage(day=day, used=total_usage(each.used for each in rows if each.day == day)) for day in days]


class MemoryAnswers:
    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def keep(self, lease: Lease, kept: KeptAnswer) -> bool:
        tables = await self._session.writing()
        row = tables.jobs.get(lease.job_id)
        if row is None or row.job.state is not JobState.CLAIMED or row.job.attempts != lease.attempt:
            return False
        known = tables.answers.get(lease.job_id, {})
        if kept.question not in known:
            await MemoryUsage(self._session).add(kept.used)
        tables.answers[lease.job_id] = {kept.question: _scrubbed_answer(kept)} | known
        return True

    async def kept(self, job_id: JobId) -> list[KeptAnswer]:
        return list(self._session.reading().answers.get(job_id, {}).values())

    async def forget(self, job_id: JobId) -> None:
        (await self._session.writing()).answers.pop(job_id, None)


def _scrubbed_answer(kept: KeptAnswer) -> KeptAnswer:
    return replace(
        kept,
        text=None if kept.text is None else scrub(kept.text),
        fault=None if kept.fault is None else scrub(kept.fault),
    )
