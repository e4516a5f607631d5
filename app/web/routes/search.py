"""Search: pages by their words."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from app.domain.ids import DocumentId
from app.domain.search import LONGEST
from app.web import cursors
from app.web.callers import Reader
from app.web.dependencies import TheSearch
from app.web.schemas import HitBody, HitList

router = APIRouter(prefix="/v1/search", tags=["search"])

Q = Annotated[
    str,
    Query(
        max_length=LONGEST,
        description='Words that a page must have; `"a phrase"`, `or` between alternatives, `-` before what must not be'
        " there. Other forms of a word are found too, by the rules of each page's language.",
    ),
]


@router.get("")
async def search_pages(
    tenant_id: Reader,
    search: TheSearch,
    q: Q,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: str | None = None,
    document_id: UUID | None = None,
) -> HitList:
    """Pages that have the words, best first, each with a snippet: HTML, escaped, what was found in `<mark>`."""
    found = await search.find(
        tenant_id,
        q,
        limit=limit,
        after=cursors.hit(cursor),
        document_id=None if document_id is None else DocumentId(document_id),
    )
    next_cursor = None if found.more is None else cursors.of_hit(found.more)
    return HitList(data=[HitBody.of(hit) for hit in found.hits], next_cursor=next_cursor)
