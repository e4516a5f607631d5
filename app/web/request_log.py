"""Gives each request an id, a log line and a place in the histogram. Pure ASGI, so it never holds a body."""

import re
import time
from uuid import uuid4

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.telemetry import Metrics
from app.tracing import NullSpans, Spans, current, trace_id

log = structlog.get_logger()

ACCEPTABLE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""A client's own X-Request-ID is used if it can do no harm in a log."""


class RequestLog:
    def __init__(self, app: ASGIApp, *, metrics: Metrics, spans: Spans | None = None) -> None:
        self._app = app
        self._spans: Spans = spans or NullSpans()
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        started = time.perf_counter()
        status = 500
        streamed: float | None = None

        async def tagged(message: Message) -> None:
            nonlocal status, streamed
            if message["type"] == "http.response.start":
                status = message["status"]
                if _is_endless(message):
                    streamed = time.perf_counter()
                message = {**message, "headers": [*message.get("headers", []), *_headers(scope, message)]}
            await send(message)

        # Probes and scrapes come all the time, and their traces say nothing.
        spans = NO_SPANS if scope["path"] in UNLOGGED_PATHS else self._spans
        parent = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"traceparent"), None)
        with (
            spans.span("request", parent=parent, attributes={"daira.request_id": request_id}, serves=True) as span,
            structlog.contextvars.bound_contextvars(request_id=request_id, trace_id=trace_id(span.traceparent)),
        ):
            token = current.set(span.traceparent)
            try:
                await self._app(scope, receive, tagged)
            finally:
                current.reset(token)
                # A stream counts until it begins: its length says nothing about how soon it was answered.
                method, route = _called(scope)
                self._note(method, route, status=status, seconds=(streamed or time.perf_counter()) - started)
                attributes: dict[str, str | int] = {
                    "http.request.method": method,
                    "http.route": route,
                    "http.response.status_code": status,
                }
                span.tell(attributes, name=f"{method} {route}")

    def _note(self, method: str, route: str, *, status: int, seconds: float) -> None:
        self._metrics.http_seconds.labels(route, method, status).observe(seconds)
        if route not in UNLOGGED_PATHS:
            log.info("request_answered", method=method, route=route, status=status, ms=round(seconds * 1000, 1))


KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNLOGGED_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
NO_SPANS = NullSpans()


def _called(scope: Scope) -> tuple[str, str]:
    """Return the method and the route's pattern; never the path, because the number of paths has no bound."""
    method = scope["method"] if scope["method"] in KNOWN_METHODS else "other"
    return method, getattr(scope.get("route"), "path", "none")


def _is_endless(start: Message) -> bool:
    return any(
        name == b"content-type" and value.startswith(b"text/event-stream") for name, value in start.get("headers", [])
    )


def _headers(scope: Scope, start: Message) -> list[tuple[bytes, bytes]]:
    """Return the headers of every answer: request id, no sniffing of its type, no storing, and the caller's rate."""
    state = scope["state"]
    ours = {"X-Request-ID": state["request_id"], "X-Content-Type-Options": "nosniff", **state.get("rate_headers", {})}
    if not any(name.lower() == b"cache-control" for name, _ in start.get("headers", [])):
        ours["Cache-Control"] = "no-store"
    return [(name.lower().encode(), value.encode()) for name, value in ours.items()]


def _request_id(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode() if ACCEPTABLE_ID.fullmatch(given) else uuid4().hex
