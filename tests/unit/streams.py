"""A reader of an event stream, in the process: it can be slow, leave, and come again."""

import asyncio
from types import TracebackType
from typing import Any, Self

from tests.support.event_streams import Blocks, Sent
from tests.unit.asgi import scope_of
from tests.unit.served import Served


class StreamReader:
    def __init__(self, web: Served, path: str, *, last: str | None = None, key: dict[str, str] | None = None) -> None:
        self._web = web
        self._scope = scope_of(web.client, path)
        # As uvicorn says it: the application itself listens for who leaves.
        self._scope["asgi"]["spec_version"] = "2.3"
        given = {} if last is None else {"Last-Event-ID": last}
        for name, value in (given | (key or {})).items():
            lower = name.lower().encode()
            self._scope["headers"] = [h for h in self._scope["headers"] if h[0] != lower]
            self._scope["headers"].append((lower, value.encode()))
        self._blocks = Blocks()
        self._sent: asyncio.Queue[Sent] = asyncio.Queue()
        self._left = asyncio.Event()
        self._asked = False
        self.reads = asyncio.Event()
        """Cleared by a test whose reader takes nothing for a while."""
        self.reads.set()
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.last: str | None = last
        """The id that came last."""
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self._web.app(self._scope, self._receive, self._send))
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._left.set()
        self.reads.set()
        assert self.task is not None
        async with asyncio.timeout(10):
            await asyncio.gather(self.task, return_exceptions=True)

    async def next(self, event: str | None = None) -> Sent:
        """The next block with an event in it, of that name."""
        async with asyncio.timeout(10):
            while True:
                sent = await self._sent.get()
                self.last = sent.id or self.last
                if sent.event is not None and event in {None, sent.event}:
                    return sent

    async def states(self, count: int) -> list[tuple[str, str]]:
        told = [(await self.next("state")).body for _ in range(count)]
        return [(job["id"], job["state"]) for job in told]

    async def position(self) -> str:
        """Read until there is one."""
        async with asyncio.timeout(10):
            while self.last is None:
                self.last = (await self._sent.get()).id
        return self.last

    async def rest(self) -> list[Sent]:
        """All that comes until the stream ends."""
        assert self.task is not None
        async with asyncio.timeout(10):
            await self.task
        found = []
        while not self._sent.empty():
            sent = self._sent.get_nowait()
            self.last = sent.id or self.last
            found.append(sent)
        return [sent for sent in found if sent.event]

    async def nothing(self) -> bool:
        """No event has come so far."""
        while not self._sent.empty():
            if self._sent.get_nowait().event is not None:
                return False
        return True

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        await self.reads.wait()
        for sent in self._blocks.feed(message.get("body", b"").decode()):
            self._sent.put_nowait(sent)
