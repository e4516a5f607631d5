"""Ends HTTP connections whose client is too slow, idle or does not speak HTTP.

Uvicorn itself would wait for ever for the rest of a head or of an answered body, and for a client to read its answer.
"""

import asyncio
import time
from uuid import uuid4

import h11
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.web.errors import PROBLEM, as_problem

SLOWEST_BYTES_PER_SECOND = 240
"""The lowest average rate, in bytes a second, at which a body must arrive; Kestrel's default."""


class SlowBodyGuard:
    def __init__(self, app: ASGIApp, *, patience: float) -> None:
        """`patience` is the time, in seconds, that a client may be behind that rate."""
        self._app = app
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, _PacedReceive(receive, self._patience) if scope["type"] == "http" else receive, send)


class _PacedReceive:
    """Receives a body at its pace: the time left grows with each byte, up to the patience.

    Only the time spent waiting for the client counts.
    """

    def __init__(self, receive: Receive, patience: float) -> None:
        self._receive = receive
        self._patience = patience
        self._left = patience
        self._more = True

    async def __call__(self) -> Message:
        # After its body a client sends nothing: a further receive waits for it to leave, without a limit.
        if not self._more:
            return await self._receive()
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._left):
                message = await self._receive()
        except TimeoutError:
            # The rest of the body may still come, so no other request can follow on this connection.
            raise HTTPException(408, "the body came too slowly", headers={"Connection": "close"}) from None
        earned = len(message.get("body", b"")) / SLOWEST_BYTES_PER_SECOND
        self._left = min(self._patience, self._left - (time.monotonic() - began) + earned)
        self._more = message.get("more_body", False)
        return message


NO_HTTP = (
    "this is not a valid HTTP request; percent-encode its address where it is not ASCII, send one Host header, and keep"
    " the headers below 64 KiB"
)
"""The most common faults, because Uvicorn does not pass on the parser's message."""


class PatientProtocol(H11Protocol):
    patience: float
    """Seconds; see `slow_client_protocol`."""

    _for_a_request: asyncio.TimerHandle | None = None
    _for_a_reader: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_a_request()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._serves() and self._for_a_request:
            self._for_a_request.cancel()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._serves():
            self._expect_a_request()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_a_reader()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        if self._for_a_reader:
            self._for_a_reader.cancel()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._for_a_request, self._for_a_reader):
            if timer:
                timer.cancel()

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer malformed HTTP with a problem document, unless the request was answered or is being answered."""
        if self._serves():
            # The route may be about to answer: from here on its answer is dropped.
            self.cycle.disconnected = True
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            for event in _refusal():
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _serves(self) -> bool:
        # Uvicorn's annotation leaves out that `cycle` is None before the first request.
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    def _expect_a_request(self) -> None:
        """Expect the whole head of a request within the patience, however its bytes are spread.

        The time also runs while the rest of an answered body comes in.
        """
        if self._for_a_request:
            self._for_a_request.cancel()
        self._for_a_request = self.loop.call_later(self.patience, self.transport.abort)

    def _expect_a_reader(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._for_a_reader = self.loop.call_later(self.patience, self._look_at_the_reader, waiting)

    def _look_at_the_reader(self, waiting: int) -> None:
        if waiting - self.transport.get_write_buffer_size() < SLOWEST_BYTES_PER_SECOND * self.patience:
            self.transport.abort()
        else:
            self._expect_a_reader()


def _refusal() -> tuple[h11.Response, h11.Data, h11.EndOfMessage]:
    request_id = uuid4().hex
    problem = as_problem(status=400, code="invalid", detail=NO_HTTP, request_id=request_id)
    body = problem.model_dump_json(exclude_none=True).encode()
    headers = [
        ("Content-Type", PROBLEM),
        ("Content-Length", str(len(body))),
        ("X-Request-ID", request_id),
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-store"),
        ("Connection", "close"),
    ]
    head = h11.Response(status_code=400, reason=b"Bad Request", headers=headers)
    return head, h11.Data(data=body), h11.EndOfMessage()


def slow_client_protocol(seconds: float) -> type[PatientProtocol]:
    """Return a protocol class with this patience; uvicorn's configuration takes a class."""
    return type("Patient", (PatientProtocol,), {"patience": seconds})
