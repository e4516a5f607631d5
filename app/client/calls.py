"""Requests to the API: with the key, tried again where that is safe, faults raised, listings followed to their end."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx

from app.client.faults import ApiFault
from app.client.retries import RetryPolicy, with_retries

Body = dict[str, Any]

PAGE_SIZE = 100
"""The most entries that one request of a listing brings."""


class ApiCalls:
    def __init__(self, http: httpx.Client, patience: RetryPolicy) -> None:
        self._http = http
        self.patience = patience

    def json(self, method: str, path: str, **options: Any) -> Body:
        return parsed_body(self.call(method, path, **options))

    def call(self, method: str, path: str, *, twice: bool | None = None, **options: Any) -> httpx.Response:
        """`twice`: it may be done twice. Else only what reads may."""

        def call() -> httpx.Response:
            return checked_response(self._http.request(method, path, **options))

        return with_retries(call, patience=self.patience, twice=method == "GET" if twice is None else twice)

    def stream(self, path: str, **options: Any) -> httpx.Response:
        """To be read, and closed, by the caller."""

        def begin() -> httpx.Response:
            response = self._http.send(self._http.build_request("GET", path, **options), stream=True)
            if not response.is_success:
                response.read()
            return checked_response(response)

        return with_retries(begin, patience=self.patience, twice=True)

    def all(self, path: str, filters: Mapping[str, Any]) -> Iterator[Body]:
        """Every entry of a listing, page by page."""
        chosen = {"limit": PAGE_SIZE} | {name: value for name, value in filters.items() if value is not None}
        while True:
            page = parsed_body(self.call("GET", path, params=chosen), has=("data", "next_cursor"))
            yield from page["data"]
            if page["next_cursor"] is None:
                return
            chosen["cursor"] = page["next_cursor"]


def checked_response(response: httpx.Response) -> httpx.Response:
    if not response.is_success:
        raise ApiFault.of(response)
    if _is_a_web_page(response):
        response.close()
        raise ApiFault.of_another(response)
    return response


def parsed_body(response: httpx.Response, *, has: tuple[str, ...] = ()) -> Body:
    """Told apart from what some other server has to say."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict) or any(name not in body for name in has):
        raise ApiFault.of_another(response)
    return body


def _is_a_web_page(response: httpx.Response) -> bool:
    """True for HTML such as that of a network that wants a login first. The service sends its own HTML as a file."""
    is_html = response.headers.get("Content-Type", "").startswith("text/html")
    return is_html and "Content-Disposition" not in response.headers


def path_part(identity: str) -> str:
    """An id stays one part of the path, whatever it is."""
    return quote(identity, safe="")
