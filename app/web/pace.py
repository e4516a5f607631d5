"""Bodies arrive at a pace, or not at all: who sends a byte now and then would hold a connection for days."""

import asyncio
import time

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SLOWEST = 240
"""Bytes a second, on average, that a body must come with; what Kestrel asks for."""


class Pace:
    def __init__(self, app: ASGIApp, *, patience: float) -> None:
        """`patience` (seconds) is what a client may be behind that pace."""
        self._app = app
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, _Paced(receive, self._patience) if scope["type"] == "http" else receive, send)


class _Paced:
    """The time that is left grows with what arrives, up to the patience. Waiting for others than the client is free."""

    def __init__(self, receive: Receive, patience: float) -> None:
        self._receive = receive
        self._patience = patience
        self._left = patience
        self._more = True

    async def __call__(self) -> Message:
        # After its body a client has nothing to send: who asks on waits for it to leave, for as long as it stays.
        if not self._more:
            return await self._receive()
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._left):
                message = await self._receive()
        except TimeoutError:
            # The rest of the body may still come, so that no other request can follow on this connection.
            raise HTTPException(408, "the body came too slowly", headers={"Connection": "close"}) from None
        earned = len(message.get("body", b"")) / SLOWEST
        self._left = min(self._patience, self._left - (time.monotonic() - began) + earned)
        self._more = message.get("more_body", False)
        return message
