"""Server-sent events as a client sees them."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One block of a stream."""

    event: str | None = None
    data: str | None = None
    id: str | None = None
    retry: int | None = None
    comment: str | None = None

    @property
    def body(self) -> Any:
        return json.loads(self.data or "null")


class Blocks:
    """The blocks of a stream, from whatever pieces it comes in."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, chunk: str) -> Iterator[Sent]:
        *blocks, self._rest = (self._rest + chunk).split("\n\n")
        return map(_block, blocks)


class LeavesEndless:
    """An application for clients that read an answer to its end: they leave a stream when they have its first id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaves, over = asyncio.Event(), False

        async def listening() -> Message:
            reading = asyncio.ensure_future(receive())
            leaving = asyncio.ensure_future(leaves.wait())
            await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            if reading.done():
                return reading.result()
            reading.cancel()
            return {"type": "http.disconnect"}

        async def watching(message: Message) -> None:
            nonlocal over
            over = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)
            if b"\nid: " in b"\n" + message.get("body", b""):
                leaves.set()

        await self._app(scope, listening, watching)
        if leaves.is_set() and not over:
            await send({"type": "http.response.body"})


def _block(text: str) -> Sent:
    fields: dict[str, Any] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        fields[name or "comment"] = value.removeprefix(" ")
    if "retry" in fields:
        fields["retry"] = int(fields["retry"])
    return Sent(**fields)
