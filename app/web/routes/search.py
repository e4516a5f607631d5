"""The route of search: finds pages by their words."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from app.domain.ids import DocumentId
from app.domain.search import LONGEST, MOST_RANK, SearchHit, snippet_html
from app.web import pagination
from app.web.callers import Reader
from app.web.dependencies import TheSearch
from app.web.pagination import TheListing
from app.web.waiting import unless_disconnected

router = APIRouter(prefix="/v1/search", tags=["search"])

Q = Annotated[
    str,
    Query(
        max_length=LONGEST,
        json_schema_extra={"minLength": 1},
        description='Words that a page must have; `"a phrase"`, `or` between alternatives, `-` before a word that it'
        " must not have. Other forms of a word are found too, by the rules of each page's language.",
    ),
]


class HitBody(BaseModel):
    document_id: UUID
    filename: str
    page: int
    snippet: str
    """A passage as escaped HTML, with found words in `<mark>`."""
    rank: float
    """A number from 0 to 1 that depends only on the page, so ranks of different requests can be compared."""

    @classmethod
    def of(cls, hit: SearchHit) -> "HitBody":
        return cls(
            document_id=hit.document_id,
            filename=hit.filename,
            page=hit.page,
            snippet=snippet_html(hit.snippet),
            rank=hit.rank / MOST_RANK,
        )


class HitList(BaseModel):
    data: list[HitBody]
    next_cursor: str | None
    """The next page's cursor; null at the end. A page before the end may have fewer hits than `limit`, or none."""


@router.get("")
async def search_pages(
    request: Request,
    tenant_id: Reader,
    search: TheSearch,
    q: Q,
    listing: TheListing,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    document_id: UUID | None = None,
) -> HitList:
    """Search pages that have the words, best first. Each has a snippet: escaped HTML with found words in `<mark>`."""
    finding = search.find(
        tenant_id,
        q,
        limit=limit,
        after=pagination.search_place(listing.cursor),
        document_id=None if document_id is None else DocumentId(document_id),
    )
    found = await unless_disconnected(request, finding)
    next_cursor = listing.next(None if found.more is None else pagination.pack_search_place(found.more))
    return HitList(data=[HitBody.of(hit) for hit in found.hits], next_cursor=next_cursor)
