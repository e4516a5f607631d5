"""A page of a listing, and the cursor to the next one: good for the same listing, filters and tenant, and no others.

Bound by a plain digest and not by a secret: a cursor opens nothing. Whoever makes one up pages through what is theirs
to list anyway, for the tenant is the key's; what the digest keeps out is mistakes. See docs/decisions/0034.
"""

import base64
import hashlib
import json
from typing import Annotated

from fastapi import Depends, Query, Request, Response

from app.domain.errors import Invalid
from app.domain.ids import TenantId
from app.web.callers import Reader

FREE = {"cursor", "limit"}
"""What may differ from page to page."""

BYTES = 12
"""Of the digest: for mistakes one in 2**96 will do."""


class Listing:
    def __init__(self, request: Request, response: Response, *, tenant_id: TenantId, cursor: str | None) -> None:
        self._request = request
        self._response = response
        filters = sorted((name, value) for name, value in request.query_params.multi_items() if name not in FREE)
        self._tenant_id, self._path, self._filters = tenant_id, request.url.path, filters
        self.cursor = None if cursor is None else self._opened(cursor)
        """The place where the last page ended, as `cursors` packs it."""

    def next(self, place: str | None) -> str | None:
        """The cursor to what comes after that place; it stands in the answer's `Link` as well."""
        if place is None:
            return None
        cursor = f"{place}.{self._bound(place)}"
        url = self._request.url.include_query_params(cursor=cursor)
        self._response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
        return cursor

    def _opened(self, cursor: str) -> str:
        place, _, bound = cursor.rpartition(".")
        if bound != self._bound(place):
            raise Invalid(
                "the cursor is not one that this listing gave with these filters: start again without cursor",
                pointer="/cursor",
            )
        return place

    def _bound(self, place: str) -> str:
        return binding(place, self._tenant_id, self._path, self._filters)


def binding(place: str, tenant_id: TenantId, path: str, filters: list[tuple[str, str]]) -> str:
    digest = hashlib.sha256(json.dumps([place, tenant_id, path, filters]).encode()).digest()
    return base64.urlsafe_b64encode(digest[:BYTES]).decode()


async def _listing(
    request: Request,
    response: Response,
    tenant_id: Reader,
    cursor: Annotated[
        str | None, Query(description="The last page's `next_cursor`, with the same filters as there.")
    ] = None,
) -> Listing:
    return Listing(request, response, tenant_id=tenant_id, cursor=cursor)


TheListing = Annotated[Listing, Depends(_listing)]
