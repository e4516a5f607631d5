"""A thin client of the HTTP API: methods are named after the routes, and answers are the API's own JSON.

One client may be used by many threads at once, which is how many files are sent side by side. In a program that runs
an event loop, call it by `asyncio.to_thread`.
"""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, unquote

import httpx

from app.client.faults import ApiFault
from app.client.forms import Source, opened
from app.client.tries import Patience, tried

CHUNK = 256 * 1024
ENDED = frozenset({"done", "failed", "cancelled"})

OFTEN, SELDOM = 1.0, 30.0
"""Seconds for each look at a job: short where somebody watches its progress."""

_UNHURRIED = httpx.Timeout(30, read=600)
_FILENAME = re.compile(r"filename\*=UTF-8''([^;\s]+)")

Body = dict[str, Any]
Progress = Callable[[Body], object]


class Client:
    """Raises ApiFault for what the server refuses and httpx.TransportError where it can't be reached.

    What can be tried again is, within `patience`: see `app.client.tries`.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        patience: Patience = Patience(),  # noqa: B008 - it is frozen
        connections: int = 100,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._patience = patience
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=httpx.Timeout(30, read=90, write=90),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def me(self) -> Body:
        return self._json("GET", "/v1/me")

    def upload(
        self,
        source: Source,
        *,
        filename: str | None = None,
        jobs: Sequence[Mapping[str, Any]] | None = None,
        language: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        wait: bool = False,
        sent: Callable[[int], object] = lambda _: None,
    ) -> Body:
        """The document; with `wait`, when its jobs have ended. `sent` is told the bytes sent so far.

        Raises OSError for a file that can't be read.
        """
        key = idempotency_key or str(uuid.uuid4())
        with opened(source, filename=filename, jobs=jobs, language=language, metadata=metadata, sent=sent) as form:
            headers = {**form.headers, "Idempotency-Key": key}

            def send() -> httpx.Response:
                return self._checked(self._http.post("/v1/documents", content=form.body(), headers=headers))

            document: Body = tried(send, patience=self._patience, twice=True).json()
        return self.wait(document) if wait else document

    def document(self, document_id: str) -> Body:
        return self._json("GET", f"/v1/documents/{_part(document_id)}")

    def documents(self, **filters: str | int | None) -> Iterator[Body]:
        """All of them, newest first; `limit` is what one request brings."""
        return self._all("/v1/documents", filters)

    def delete(self, document_id: str) -> None:
        self._call("DELETE", f"/v1/documents/{_part(document_id)}")

    def text(self, document_id: str) -> str:
        """Pages are separated by form feeds."""
        return self._call("GET", f"/v1/documents/{_part(document_id)}/text").text

    def pages(self, document_id: str) -> list[Body]:
        pages: list[Body] = self._json("GET", f"/v1/documents/{_part(document_id)}/pages")["data"]
        return pages

    def page(self, document_id: str, number: int) -> Body:
        """With its words."""
        return self._json("GET", f"/v1/documents/{_part(document_id)}/pages/{number}")

    @contextmanager
    def download(self, document_id: str, what: str) -> Iterator["Download"]:
        """One of the document's outputs, for as long as the context is open; `what` is the end of its route."""

        # A searchable PDF is made when it is asked for, and that may take its time.
        def begin() -> httpx.Response:
            path = f"/v1/documents/{_part(document_id)}/{what}"
            response = self._http.send(self._http.build_request("GET", path, timeout=_UNHURRIED), stream=True)
            if not response.is_success:
                response.read()
            return self._checked(response)

        response = tried(begin, patience=self._patience, twice=True)
        try:
            yield Download(response)
        finally:
            response.close()

    def request_job(self, document_id: str, request: Mapping[str, Any], *, idempotency_key: str | None = None) -> Body:
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        path = f"/v1/documents/{_part(document_id)}/jobs"
        return self._json("POST", path, json=request, headers=headers, twice=True)

    def job(self, job_id: str, *, wait: float = 0) -> Body:
        """The job; waits up to `wait` seconds (60 at most) for its end."""
        return self._json("GET", f"/v1/jobs/{_part(job_id)}", params={"wait": wait})

    def jobs(self, **filters: str | int | None) -> Iterator[Body]:
        """All of them, newest first; `limit` is what one request brings."""
        return self._all("/v1/jobs", filters)

    def wait(self, what: Mapping[str, Any], *, on_progress: Progress | None = None) -> Body:
        """A document with its jobs ended, or a job that has ended; how, is for the caller to look at.

        `on_progress` is told the job each time that it was looked at.
        """
        if "jobs" not in what:
            return self._ended(what, on_progress)
        for job in what["jobs"]:
            self._ended(job, on_progress)
        return self.document(what["id"])

    def cancel(self, job_id: str) -> Body:
        # A second cancel is answered like the first.
        return self._json("POST", f"/v1/jobs/{_part(job_id)}/cancel", twice=True)

    def _ended(self, job: Mapping[str, Any], on_progress: Progress | None) -> Body:
        seen = dict(job)
        while seen["state"] not in ENDED:
            seen = self.job(seen["id"], wait=OFTEN if on_progress else SELDOM)
            if on_progress:
                on_progress(seen)
        return seen

    def _all(self, path: str, filters: Mapping[str, str | int | None]) -> Iterator[Body]:
        chosen = {"limit": 100} | {name: value for name, value in filters.items() if value is not None}
        while True:
            page = self._json("GET", path, params=chosen)
            yield from page["data"]
            if page["next_cursor"] is None:
                return
            chosen["cursor"] = page["next_cursor"]

    def _json(self, method: str, path: str, **options: Any) -> Body:
        body: Body = self._call(method, path, **options).json()
        return body

    def _call(self, method: str, path: str, *, twice: bool | None = None, **options: Any) -> httpx.Response:
        def call() -> httpx.Response:
            return self._checked(self._http.request(method, path, **options))

        return tried(call, patience=self._patience, twice=method == "GET" if twice is None else twice)

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if response.is_success:
            return response
        raise ApiFault.of(response)


class Download:
    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        length = response.headers.get("Content-Length")
        self.size = int(length) if length else None
        """Bytes; None where the server does not know them ahead."""
        told = _FILENAME.search(response.headers.get("Content-Disposition", ""))
        self.filename = unquote(told[1]) if told else None
        """As the server says: it may be anything."""

    def chunks(self) -> Iterator[bytes]:
        """Raises httpx.RemoteProtocolError where the server broke off."""
        return self._response.iter_bytes(CHUNK)


def _part(identity: str) -> str:
    """An id stays one part of the path, whatever it is."""
    return quote(identity, safe="")
