"""Requests to the API: with the key, tried again where that is safe, faults raised, listings followed to their end."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx

from app.client.faults import ApiFault
from app.client.tries import Patience, tried

Body = dict[str, Any]

MOST = 100
"""What one request of a listing brings at most."""


class Calls:
    def __init__(self, http: httpx.Client, patience: Patience) -> None:
        self._http = http
        self.patience = patience

    def json(self, method: str, path: str, **options: Any) -> Body:
        return parsed(self.call(method, path, **options))

    def call(self, method: str, path: str, *, twice: bool | None = None, **options: Any) -> httpx.Response:
        """`twice`: it may be done twice. Else only what reads may."""

        def call() -> httpx.Response:
            return checked(self._http.request(method, path, **options))

        return tried(call, patience=self.patience, twice=method == "GET" if twice is None else twice)

    def stream(self, path: str, **options: Any) -> httpx.Response:
        """To be read, and closed, by the caller."""

        def begin() -> httpx.Response:
            response = self._http.send(self._http.build_request("GET", path, **options), stream=True)
            if not _is_ours(response):
                response.read()
            return checked(response)

        return tried(begin, patience=self.patience, twice=True)

    def all(self, path: str, filters: Mapping[str, Any]) -> Iterator[Body]:
        """Every entry of a listing, page by page."""
        chosen = {"limit": MOST} | {name: value for name, value in filters.items() if value is not None}
        while True:
            page = self.json("GET", path, params=chosen)
            yield from page["data"]
            if page["next_cursor"] is None:
                return
            chosen["cursor"] = page["next_cursor"]


def checked(response: httpx.Response) -> httpx.Response:
    if _is_ours(response):
        return response
    raise ApiFault.of_another(response) if response.is_success else ApiFault.of(response)


def parsed(response: httpx.Response) -> Body:
    try:
        body = response.json()
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise ApiFault.of_another(response)
    return body


def _is_ours(response: httpx.Response) -> bool:
    """Every answer of the service's has this header: a page of some other server is not taken for a document."""
    return response.is_success and "X-Request-ID" in response.headers


def part(identity: str) -> str:
    """An id stays one part of the path, whatever it is."""
    return quote(identity, safe="")
