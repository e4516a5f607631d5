"""A line to the service on which things go wrong as a test wishes; what comes through is the real service's answer."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from typing_extensions import override

CUT, LOST, SILENT = "cut", "lost", "silent"
"""The line breaks before the service has heard of it; it breaks after that; nothing comes back, and it stays up."""

Trouble = str | tuple[int, str]
TOO_MANY = 429

HOP = frozenset({"connection", "transfer-encoding", "keep-alive", "host", "date", "server"})


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    path: str
    size: int
    key: str | None
    """Its idempotency key."""
    last_event_id: str | None


@dataclass(kw_only=True)
class BadLine:
    target: str
    troubles: deque[Trouble] = field(default_factory=deque)
    """One for each upload to come: one of the words above, or a status with its `Retry-After`."""
    log: list[Request] = field(default_factory=list)
    url: str = ""
    over: threading.Event = field(default_factory=threading.Event)
    heard: threading.Event = field(default_factory=threading.Event)
    """An upload has come."""
    cuts: int = 0
    """Streams of events that break behind their first event."""

    @property
    def uploads(self) -> list[Request]:
        return [request for request in self.log if request.method == "POST"]


@contextmanager
def bad_line(target: str) -> Iterator[BadLine]:
    line = BadLine(target=target)
    with httpx.Client(base_url=target, timeout=90, trust_env=False) as client:
        server = _Server(line, client)
        line.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield line
        finally:
            line.over.set()
            server.shutdown()
            server.server_close()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, line: BadLine, client: httpx.Client) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.line = line
        self.client = client

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/events"):
            self._noted(0)
            self._stream()
            return
        trouble = self._noted(len(body))
        match trouble:
            case (status, retry_after):
                self._refuse(status, retry_after)
            case "silent":
                self.server.line.over.wait()
            case "cut":
                pass
            case "lost":
                self._asked(body)
            case _:
                self._answer(self._asked(body))
        if isinstance(trouble, str):
            self.close_connection = True

    do_POST = do_DELETE = do_GET  # noqa: N815 - the names that the library calls

    def _noted(self, size: int) -> Trouble | None:
        line, key, last = self.server.line, self.headers.get("Idempotency-Key"), self.headers.get("Last-Event-ID")
        line.log.append(Request(method=self.command, path=self.path, size=size, key=key, last_event_id=last))
        if self.command != "POST":
            return None
        line.heard.set()
        return line.troubles.popleft() if line.troubles else None

    def _asked(self, body: bytes) -> httpx.Response:
        return self.server.client.request(self.command, self.path, content=body, headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {name: value for name, value in self.headers.items() if name.lower() not in HOP}

    def _stream(self) -> None:
        """Ends by breaking off, which a chunked stream shows: behind its first event, or where it ends itself."""
        with self.server.client.stream("GET", self.path, headers=self._headers()) as answer:
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.close_connection = True
            for chunk in answer.iter_bytes():
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                if self.server.line.cuts and b"event:" in chunk:
                    self.server.line.cuts -= 1
                    return
            self.wfile.write(b"0\r\n\r\n")

    def _answer(self, answer: httpx.Response) -> None:
        self.send_response(answer.status_code)
        for name, value in answer.headers.items():
            if name.lower() not in HOP | {"content-length", "content-encoding"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def _refuse(self, status: int, retry_after: str) -> None:
        code = "too_many_requests" if status == TOO_MANY else "unavailable"
        body = f'{{"code": "{code}", "detail": "come later"}}'.encode()
        self.send_response(status)
        self.send_header("Retry-After", retry_after)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """The test has its own log."""
