"""Who receives webhooks, on loopback: it answers as it is told to, and keeps what it was sent, byte by byte.

`async with receiving() as receiver: receiver.script("500", "hang", "429:30")`; what is beyond the script gets a 204.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

FLOOD = 64 * 1024 * 1024
"""Bytes that a flooding receiver would send, if it were let."""


@dataclass(frozen=True, kw_only=True)
class Received:
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(kw_only=True)
class Receiver:
    """It says a status, `429:30` with a Retry-After, `301:URL`, or does as `_answer` has it: `hang`, `flood`, …"""

    default: str = "204"
    queue: deque[str] = field(default_factory=deque)
    log: list[Received] = field(default_factory=list)
    connections: int = 0
    active: int = 0
    most: int = 0
    """Requests at the same time."""
    sent: int = 0
    """Bytes of flooding answers that were taken."""
    port: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Those who `wait` are answered when it is set."""
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks"

    @property
    def last(self) -> Received:
        return self.log[-1]

    def script(self, *behaviours: str) -> None:
        self.queue.extend(behaviours)

    async def start(self, *, ssl: object = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=ssl)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until(self, count: int) -> list[Received]:
        """Those received, as soon as there are so many."""
        async with asyncio.timeout(30):
            while len(self.log) < count:
                await asyncio.sleep(0.005)
        return self.log

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._handle(reader, writer)
        finally:
            writer.transport.abort() if task.cancelling() else writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.log.append(Received(target=head.split()[1], headers=headers, body=body))
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            await self._answer(self.queue.popleft() if self.queue else self.default, reader, writer)
        finally:
            self.active -= 1

    async def _answer(self, behaviour: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        what, _, value = behaviour.partition(":")
        match what:
            case "hang":
                await _until_left(reader)
            case "cut":
                return
            case "nonsense":
                await _say(writer, b"what is this?\r\n\r\n")
            case "flood":
                await self._flood(writer)
            case "drip":
                await _say(writer, b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nand so on")
                await _until_left(reader)
            case "wait":
                await self.gate.wait()
                await _say(writer, b"HTTP/1.1 204 Fine\r\nConnection: close\r\n\r\n")
            case status:
                header = f"Location: {value}\r\n" if status.startswith("3") else f"Retry-After: {value}\r\n"
                told = header if value else ""
                await _say(
                    writer, f"HTTP/1.1 {status} So\r\n{told}Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
                )

    async def _flood(self, writer: asyncio.StreamWriter) -> None:
        await _say(writer, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % FLOOD)
        chunk = bytes(64 * 1024)
        while self.sent < FLOOD:
            await _say(writer, chunk)
            self.sent += len(chunk)


async def _say(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def _until_left(reader: asyncio.StreamReader) -> None:
    while await reader.read(1024):
        pass


@asynccontextmanager
async def receiving(*, ssl: object = None) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.start(ssl=ssl)
    try:
        yield receiver
    finally:
        await receiver.stop()
