"""Cursors of listings: a place, packed, and a digest that binds it to the listing, its filters and the tenant.

The digest has no secret, because it only prevents mistakes: the tenant comes from the key, so a forged cursor shows
only what its client may list anyway. See docs/decisions/0034.
"""

import asyncio
import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel

from app.domain.documents import DocumentCursor
from app.domain.errors import Invalid
from app.domain.ids import DocumentId, JobId, TenantId, WebhookId
from app.domain.search import SearchPosition
from app.web.callers import Reader
from app.web.schemas import in_utc

UNBOUND_PARAMETERS = {"cursor", "limit"}
"""Parameters that may differ from page to page."""

BINDING_BYTES = 12
"""Bytes of the digest; a mistake passes with a chance of one in 2**96."""


class Listing:
    def __init__(self, request: Request, response: Response, *, tenant_id: TenantId, cursor: str | None) -> None:
        self._request = request
        self._response = response
        filters = sorted(
            (name, value) for name, value in request.query_params.multi_items() if name not in UNBOUND_PARAMETERS
        )
        self._tenant_id, self._path, self._filters = tenant_id, request.url.path, filters
        self.cursor = None if cursor is None else self._opened(cursor)
        """The place where the last page ended, packed."""

    def next(self, place: str | None) -> str | None:
        """Return the cursor to the page after that place, and set the answer's `Link`. Returns None for no place."""
        if place is None:
            return None
        cursor = f"{place}.{self._bound(place)}"
        url = self._request.url.include_query_params(cursor=cursor)
        self._response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
        return cursor

    async def answer(self, bodies: Iterable[BaseModel], *, following: str | None) -> Response:
        """Return a page of these as JSON, with the cursor to the page after that place.

        A hundred documents take a tenth of a second. Made one by one, they let other requests go on in between.
        """
        parts: list[bytes] = []
        for body in bodies:
            parts.append(body.model_dump_json().encode())
            await asyncio.sleep(0)
        end = json.dumps({"next_cursor": self.next(following)}).encode()
        content = b'{"data":[' + b",".join(parts) + b"]," + end[1:]
        return Response(content, media_type="application/json", headers=dict(self._response.headers))

    def _opened(self, cursor: str) -> str:
        place, _, bound = cursor.rpartition(".")
        if bound != self._bound(place):
            raise Invalid(
                "invalid cursor: it belongs to another listing or other filters; restart without cursor",
                pointer="/cursor",
            )
        return place

    def _bound(self, place: str) -> str:
        return binding(place, self._tenant_id, self._path, self._filters)


def binding(place: str, tenant_id: TenantId, path: str, filters: list[tuple[str, str]]) -> str:
    digest = hashlib.sha256(json.dumps([place, tenant_id, path, filters]).encode()).digest()
    return base64.urlsafe_b64encode(digest[:BINDING_BYTES]).decode()


async def _listing(
    request: Request,
    response: Response,
    tenant_id: Reader,
    cursor: Annotated[
        str | None, Query(description="The previous page's `next_cursor`; send the same filters with it.")
    ] = None,
) -> Listing:
    return Listing(request, response, tenant_id=tenant_id, cursor=cursor)


TheListing = Annotated[Listing, Depends(_listing)]


SMALL_NUMBER = re.compile(r"[0-9]{1,9}")
"""A number that every store can hold."""


def pack_document_place(created_at: datetime, document_id: DocumentId) -> str:
    return _pack([created_at.isoformat(), str(document_id)])


def document_place(cursor: str | None) -> DocumentCursor | None:
    if cursor is None:
        return None
    try:
        created_at, document_id = _unpack(cursor)
        moment = datetime.fromisoformat(created_at)
        if moment.tzinfo is None:
            raise _invalid_cursor()
        return DocumentCursor(created_at=in_utc(moment), id=DocumentId(UUID(document_id)))
    except (ValueError, TypeError, AttributeError):
        raise _invalid_cursor() from None


def pack_job_place(job_id: JobId) -> str:
    return _pack([str(job_id)])


def job_place(cursor: str | None) -> JobId | None:
    return None if cursor is None else JobId(_id(cursor))


def pack_webhook_place(webhook_id: WebhookId) -> str:
    return _pack([str(webhook_id)])


def webhook_place(cursor: str | None) -> WebhookId | None:
    return None if cursor is None else WebhookId(_id(cursor))


def _id(cursor: str) -> UUID:
    try:
        (one,) = _unpack(cursor)
        return UUID(one)
    except (ValueError, TypeError, AttributeError):
        raise _invalid_cursor() from None


def pack_search_place(place: SearchPosition) -> str:
    return _pack([str(place.rank), str(place.document_id), str(place.page)])


def search_place(cursor: str | None) -> SearchPosition | None:
    if cursor is None:
        return None
    try:
        rank, document_id, page = _unpack(cursor)
        return SearchPosition(rank=_number(rank), document_id=DocumentId(UUID(document_id)), page=_number(page))
    except (ValueError, TypeError, AttributeError):
        raise _invalid_cursor() from None


def _number(text: str) -> int:
    if not SMALL_NUMBER.fullmatch(text):
        raise _invalid_cursor()
    return int(text)


def _pack(parts: list[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).rstrip(b"=").decode()


def _unpack(cursor: str) -> list[str]:
    try:
        parts: list[str] = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, UnicodeDecodeError, RecursionError) as error:
        raise ValueError from error
    return parts


def _invalid_cursor() -> Invalid:
    return Invalid("invalid cursor: it belongs to another listing; restart without cursor", pointer="/cursor")
