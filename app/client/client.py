"""A thin client of the HTTP API: methods are named after the routes, and answers are the API's own JSON.

One client may be used by many threads at once, which is how many files are sent side by side. In a program that runs
an event loop, call it by `asyncio.to_thread`.
"""

import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import httpx

from app.client import events
from app.client.calls import ApiCalls, Body, checked_response, parsed_body, path_part
from app.client.retries import RetryPolicy, with_retries
from app.client.transfers import Download, UploadSource, open_form


class WebhooksClient:
    def __init__(self, calls: ApiCalls) -> None:
        self._calls = calls

    def create(self, url: str, *, events: Sequence[str] | None = None, description: str = "") -> Body:
        """With its `secret`, which is shown this once. Without `events`: all of them."""
        wanted = {"url": url, "description": description} | ({"events": list(events)} if events else {})
        return self._calls.json("POST", "/v1/webhooks", json=wanted)

    def list(self) -> Iterator[Body]:
        """Newest first."""
        return self._calls.all("/v1/webhooks", {})

    def delete(self, webhook_id: str) -> None:
        self._calls.call("DELETE", self._path(webhook_id))

    def rotate(self, webhook_id: str, *, overlap_seconds: int | None = None) -> Body:
        """With its new `secret`. For the overlap, a day if not said, the former one signs too."""
        wanted = {} if overlap_seconds is None else {"overlap_seconds": overlap_seconds}
        return self._calls.json("POST", f"{self._path(webhook_id)}/rotate", json=wanted)

    def enable(self, webhook_id: str) -> Body:
        """Send again, after it was disabled by its failures."""
        return self._calls.json("POST", f"{self._path(webhook_id)}/enable", twice=True)

    def test(self, webhook_id: str) -> Body:
        """The delivery of a `webhook.test` event, a job."""
        return self._calls.json("POST", f"{self._path(webhook_id)}/test")

    def deliveries(self, webhook_id: str) -> Iterator[Body]:
        """Newest first; `Client.retry` with a delivery's job sends it again."""
        return self._calls.all(f"{self._path(webhook_id)}/deliveries", {})

    def _path(self, webhook_id: str) -> str:
        return f"/v1/webhooks/{path_part(webhook_id)}"


ENDED = events.ENDED

SHORTEST_POLL, LONGEST_POLL = 1.0, 30.0
"""Seconds for each look at a job: short where somebody watches its progress."""

_UNHURRIED = httpx.Timeout(30, read=600)

ProgressCallback = Callable[[Body], object]


class Client:
    """Raises ApiFault for what the server refuses and httpx.TransportError where it can't be reached.

    What can be tried again is, within `patience`: see `app.client.retries`.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        patience: RetryPolicy = RetryPolicy(),  # noqa: B008 - it is frozen
        connections: int = 100,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=httpx.Timeout(30, read=90, write=90),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            transport=transport,
        )
        self._calls = ApiCalls(self._http, patience)
        self.webhooks = WebhooksClient(self._calls)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def me(self) -> Body:
        """The tenant, the key, its scopes and limits."""
        return self._calls.json("GET", "/v1/me")

    def usage(self, *, first: str | None = None, last: str | None = None) -> Body:
        """By day, from the first to the last (`2026-11-30`, UTC); the last 30 where nothing is said."""
        days = {"from": first, "to": last}
        return self._calls.json("GET", "/v1/usage", params={name: day for name, day in days.items() if day})

    def upload(
        self,
        source: UploadSource,
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
        with open_form(source, filename=filename, jobs=jobs, language=language, metadata=metadata, sent=sent) as form:
            headers = {**form.headers, "Idempotency-Key": key}

            # A form of its own for each try: from its start.
            def send() -> httpx.Response:
                return checked_response(self._http.post("/v1/documents", content=form.body(), headers=headers))

            document = parsed_body(with_retries(send, patience=self._calls.patience, twice=True))
        return self.wait(document) if wait else document

    def document(self, document_id: str) -> Body:
        return self._calls.json("GET", _of(document_id))

    def documents(self, **filters: str | int | None) -> Iterator[Body]:
        """All of them, newest first; `limit` is what one request brings."""
        return self._calls.all("/v1/documents", filters)

    def delete(self, document_id: str) -> None:
        """With its bytes, pages, jobs and results."""
        self._calls.call("DELETE", _of(document_id))

    def text(self, document_id: str) -> str:
        """Pages are separated by form feeds."""
        return self._calls.call("GET", f"{_of(document_id)}/text").text

    def pages(self, document_id: str) -> list[Body]:
        pages: list[Body] = self._calls.json("GET", f"{_of(document_id)}/pages")["data"]
        return pages

    def page(self, document_id: str, number: int) -> Body:
        """With its words."""
        return self._calls.json("GET", f"{_of(document_id)}/pages/{number}")

    @contextmanager
    def download(self, document_id: str, what: str) -> Iterator[Download]:
        """One of the document's outputs, for as long as the context is open; `what` is the end of its route."""
        # A searchable PDF is made when it is asked for, and that may take its time.
        response = self._calls.stream(f"{_of(document_id)}/{what}", timeout=_UNHURRIED)
        try:
            yield Download(response)
        finally:
            response.close()

    def search(self, q: str, **filters: str | int | None) -> Iterator[Body]:
        """Pages that have the words, best first; `limit` is what one request brings."""
        return self._calls.all("/v1/search", {"q": q, **filters})

    def request_job(self, document_id: str, request: Mapping[str, Any], *, idempotency_key: str | None = None) -> Body:
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return self._calls.json("POST", f"{_of(document_id)}/jobs", json=request, headers=headers, twice=True)

    def job(self, job_id: str, *, wait: float = 0) -> Body:
        """The job; waits up to `wait` seconds (60 at most) for its end."""
        return self._calls.json("GET", f"/v1/jobs/{path_part(job_id)}", params={"wait": wait})

    def jobs(self, **filters: str | int | None) -> Iterator[Body]:
        """All of them, newest first; `limit` is what one request brings."""
        return self._calls.all("/v1/jobs", filters)

    def wait(self, what: Mapping[str, Any], *, on_progress: ProgressCallback | None = None) -> Body:
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
        return self._calls.json("POST", f"/v1/jobs/{path_part(job_id)}/cancel", twice=True)

    def retry(self, job_id: str) -> Body:
        """Queue a failed or cancelled job again, or have a delivery sent once more."""
        return self._calls.json("POST", f"/v1/jobs/{path_part(job_id)}/retry")

    def events(self, job_id: str | None = None, *, last_event_id: str | None = None) -> Generator[events.StreamEvent]:
        """Events of one job until it has ended, or of all jobs without an end. A broken stream is resumed."""
        path = "/v1/events" if job_id is None else f"/v1/jobs/{path_part(job_id)}/events"
        return events.follow(self._calls, path, last_event_id=last_event_id, of_one=job_id is not None)

    def _ended(self, job: Mapping[str, Any], on_progress: ProgressCallback | None) -> Body:
        seen = dict(job)
        while seen["state"] not in ENDED:
            seen = self.job(seen["id"], wait=SHORTEST_POLL if on_progress else LONGEST_POLL)
            if on_progress:
                on_progress(seen)
        return seen


def _of(document_id: str) -> str:
    return f"/v1/documents/{path_part(document_id)}"
