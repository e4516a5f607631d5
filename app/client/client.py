"""A thin client of the HTTP API: methods are named after the routes, faults carry the server's own words."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import httpx

CHUNK = 256 * 1024
_UNHURRIED = httpx.Timeout(30, read=600)
_FILENAME = re.compile(r"filename\*=UTF-8''([^;\s]+)")


class ApiFault(Exception):
    """The server refused: `code` and `detail` as in its problem document."""

    def __init__(self, *, status: int, code: str, detail: str) -> None:
        super().__init__(f"{detail} ({code}, HTTP {status})")
        self.status = status
        self.code = code


class Client:
    """Raises ApiFault for what the server refuses and httpx.TransportError when it can't be reached."""

    def __init__(self, url: str, api_key: str, *, transport: httpx.BaseTransport | None = None) -> None:
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=httpx.Timeout(30, read=90, write=90),
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def upload(
        self,
        path: Path,
        *,
        jobs: Sequence[Mapping[str, object]] | None = None,
        language: str | None = None,
        sent: Callable[[int], object] = lambda _: None,
    ) -> dict[str, Any]:
        """The document. `sent` is told the bytes sent so far."""
        fields = {"jobs": json.dumps(list(jobs)) if jobs else None, "language": language}
        with path.open("rb") as file:
            form = httpx.Request(
                "POST",
                "http://form",
                files={"file": (path.name, file, "application/octet-stream")},
                data={name: value for name, value in fields.items() if value},
            )
            headers = {name: form.headers[name] for name in ("Content-Type", "Content-Length")}
            body = _counted(form.stream, sent)
            return self._json(self._http.post("/v1/documents", content=body, headers=headers))

    def document(self, document_id: str) -> dict[str, Any]:
        return self._json(self._http.get(f"/v1/documents/{document_id}"))

    def text(self, document_id: str) -> str:
        return self._checked(self._http.get(f"/v1/documents/{document_id}/text")).text

    @contextmanager
    def download(self, document_id: str, what: str) -> Iterator["Download"]:
        """One of the document's outputs, for as long as the context is open; `what` is the end of its route."""
        # A searchable PDF is made when it is asked for, and that may take its time.
        with self._http.stream("GET", f"/v1/documents/{document_id}/{what}", timeout=_UNHURRIED) as response:
            if not response.is_success:
                response.read()
            yield Download(self._checked(response))

    def job(self, job_id: str, *, wait: float = 0) -> dict[str, Any]:
        """The job; waits up to `wait` seconds (60 at most) for its end."""
        return self._json(self._http.get(f"/v1/jobs/{job_id}", params={"wait": wait}))

    def jobs(self, **filters: str | int | None) -> dict[str, Any]:
        chosen = {name: value for name, value in filters.items() if value is not None}
        return self._json(self._http.get("/v1/jobs", params=chosen))

    def cancel(self, job_id: str) -> dict[str, Any]:
        return self._json(self._http.post(f"/v1/jobs/{job_id}/cancel"))

    def _json(self, response: httpx.Response) -> dict[str, Any]:
        body: dict[str, Any] = self._checked(response).json()
        return body

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if response.is_success:
            return response
        try:
            problem = response.json()
            code, detail = problem["code"], problem["detail"]
        except (ValueError, KeyError, TypeError):
            code, detail = "unexpected", f"an answer that is not Daira's: is {response.url} the right address?"
        raise ApiFault(status=response.status_code, code=code, detail=detail)


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


def _counted(stream: Any, sent: Callable[[int], object]) -> Iterator[bytes]:
    total = 0
    for chunk in stream:
        total += len(chunk)
        yield chunk
        sent(total)
