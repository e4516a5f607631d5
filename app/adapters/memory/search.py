"""Search in the memory store: words as they are, in small letters. No stemming, no stop words."""

import re
import unicodedata
from collections.abc import Sequence

from app.adapters.memory.store import Session
from app.domain.ids import DocumentId
from app.domain.pages import Page
from app.domain.search import CLOSE, OPEN, Alternative, Found, Hit, Place, Query, Term

WORD = re.compile(r"\w+")
AROUND = 80
"""Characters of a snippet before the first word that was found, and after it."""


class MemorySearch:
    def __init__(self, session: Session) -> None:
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
        self, query: Query, *, limit: int, after: Place | None = None, document_id: DocumentId | None = None
    ) -> Found:
        tables = self._session.reading()
        hits = [
            hit
            for found_id, pages in tables.indexed.items()
            if document_id in {None, found_id}
            for page in pages
            if (hit := _hit(query, page, found_id, tables.documents[found_id].filename))
        ]
        hits.sort(key=lambda hit: _order(_place(hit)))
        rest = [hit for hit in hits if after is None or _order(_place(hit)) > _order(after)]
        return Found(hits=rest[:limit], more=_place(rest[limit - 1]) if len(rest) > limit else None)


def _hit(query: Query, page: Page, document_id: DocumentId, filename: str) -> Hit | None:
    text = unicodedata.normalize("NFKC", page.text).replace(OPEN, " ").replace(CLOSE, " ")
    words = _words(text)
    fitting = [each for each in query.alternatives if _fits(each, words)]
    if not fitting:
        return None
    wanted = {word for each in fitting for term in each.terms if not term.excluded for word in _words(term.text)}
    times = sum(word in wanted for word in words)
    return Hit(
        document_id=document_id,
        filename=filename,
        page=page.number,
        rank=max(1, 1000 * times // (times + 1 + len(words) // 300)),
        snippet=_snippet(text, wanted),
    )


def _fits(alternative: Alternative, words: Sequence[str]) -> bool:
    return all(_has(term, words) is not term.excluded for term in alternative.terms)


def _has(term: Term, words: Sequence[str]) -> bool:
    wanted = _words(term.text)
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words)))


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def _snippet(text: str, wanted: set[str]) -> str:
    marked = WORD.sub(lambda word: f"{OPEN}{word[0]}{CLOSE}" if word[0].lower() in wanted else word[0], text)
    first = marked.find(OPEN)
    return marked[max(0, first - AROUND) : marked.find(CLOSE, first + AROUND) + 1 or None]


def _place(hit: Hit) -> Place:
    return Place(rank=hit.rank, document_id=hit.document_id, page=hit.page)


def _order(place: Place) -> tuple[int, int, int]:
    return -place.rank, -place.document_id.int, place.page
