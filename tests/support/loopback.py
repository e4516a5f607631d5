"""A server on loopback that does as it is told: what the scripted language model and the receiver of webhooks share."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    """By their names in small letters."""
    body: bytes


@dataclass(kw_only=True)
class Loopback(ABC):
    port: int = 0
    default: str
    """What is done beyond the script."""
    queue: deque[str] = field(default_factory=deque)
    connections: int = 0
    active: int = 0
    most: int = 0
    """Requests at the same time, at the most."""
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @abstractmethod
    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its last."""

    def script(self, *behaviours: str) -> None:
        """The next requests, one each."""
        self.queue.extend(behaviours)

    def next_behaviour(self) -> str:
        return self.queue.popleft() if self.queue else self.default

    async def start(self, *, ssl: object = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024, ssl=ssl)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """As a crash would: nobody is answered any more, and connections are refused."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            yield
        finally:
            self.active -= 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self.handle(reader, writer)
        finally:
            await _closed(writer, abort=task.cancelling() > 0)
            self._tasks.discard(task)


async def read_request(reader: asyncio.StreamReader) -> Request:
    head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, target, _ = head.split()
    return Request(method=method, target=target, headers=headers, body=body)


async def until_left(reader: asyncio.StreamReader) -> None:
    """Silence, until the client goes away."""
    while await reader.read(1024):
        pass


async def _closed(writer: asyncio.StreamWriter, *, abort: bool) -> None:
    try:
        writer.transport.abort() if abort else writer.close()
        await writer.wait_closed()
    except (ConnectionError, asyncio.CancelledError):
        writer.transport.abort()
