"""A thin client of the HTTP API: methods are named after the routes, faults carry the server's own words."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

CHUNK = 256 * 1024


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


def _counted(stream: Any, sent: Callable[[int], object]) -> Iterator[bytes]:
    total = 0
    for chunk in stream:
        total += len(chunk)
        yield chunk
        sent(total)
