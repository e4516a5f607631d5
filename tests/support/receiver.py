"""Who receives webhooks, on loopback: it answers as it is told to, and keeps what it was sent, byte by byte.

`async with receiving() as receiver: receiver.script("500", "hang", "429:30")`; what is beyond the script gets a 204.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from typing_extensions import override

from tests.support.loopback import Loopback, Request, read_request, until_left

FLOOD = 64 * 1024 * 1024
"""Bytes that a flooding receiver would send, if it were let."""


@dataclass(kw_only=True)
class Receiver(Loopback):
    """It says a status, `429:30` with a Retry-After, `301:URL`, or does as `_answer` has it: `hang`, `flood`, …"""

    default: str = "204"
    log: list[Request] = field(default_factory=list)
    sent: int = 0
    """Bytes of flooding answers that were taken."""
    date: str = ""
    """The `Date` of its answers, if any."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Those who `wait` are answered when it is set."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks"

    @property
    def last(self) -> Request:
        return self.log[-1]

    async def until(self, count: int) -> list[Request]:
        """Those received, as soon as there are so many."""
        async with asyncio.timeout(30):
            while len(self.log) < count:
                await asyncio.sleep(0.005)
        return self.log

    @override
    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        self.log.append(request)
        with self.at_work():
            await self._answer(self.next_behaviour(), reader, writer)

    async def _answer(self, behaviour: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        what, _, value = behaviour.partition(":")
        match what:
            case "hang":
                await until_left(reader)
            case "cut":
                return
            case "nonsense":
                await _say(writer, b"what is this?\r\n\r\n")
            case "flood":
                await self._flood(writer)
            case "drip":
                await _say(writer, b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nand so on")
                await until_left(reader)
            case "wait":
                await self.gate.wait()
                await _say(writer, b"HTTP/1.1 204 Fine\r\nConnection: close\r\n\r\n")
            case status:
                header = f"Location: {value}\r\n" if status.startswith("3") else f"Retry-After: {value}\r\n"
                told = (header if value else "") + (f"Date: {self.date}\r\n" if self.date else "")
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


@asynccontextmanager
async def receiving(*, ssl: object = None) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.start(ssl=ssl)
    try:
        yield receiver
    finally:
        await receiver.stop()
