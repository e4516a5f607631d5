"""Sends requests over kept-alive connections, as fast as they are answered or at a steady rate.

A general client would use more of the machine than the server that it measures.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit


@dataclass(kw_only=True)
class Answers:
    seconds: list[float] = field(default_factory=list)
    """Seconds of each request, in the order of their ends."""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.seconds)

    def percentile(self, share: float) -> float:
        """The percentile in milliseconds."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


class Refused(Exception):
    """An answer was not a success."""


async def as_fast_as_answered(
    url: str, next_request: Callable[[], bytes | None], *, connections: int, keep_bodies: bool = False
) -> tuple[Answers, float]:
    """Send requests until there is no next one. Returns the answers, and the seconds that all took."""
    answers = Answers()

    async def one() -> None:
        async with _Connection(url) as connection:
            while (request := next_request()) is not None:
                began = time.perf_counter()
                body = await connection.ask(request)
                answers.seconds.append(time.perf_counter() - began)
                if keep_bodies:
                    answers.bodies.append(body)

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    return answers, time.perf_counter() - began


async def at_a_pace(url: str, request: bytes, *, rate: float, until: asyncio.Event, connections: int = 4) -> Answers:
    """Send `rate` requests a second, each timed from when it was due, so that waiting for a slow one counts."""
    answers = Answers()
    turns = _Turns(rate)

    async def one() -> None:
        async with _Connection(url) as connection:
            while not until.is_set():
                due = turns.next()
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                await connection.ask(request)
                answers.seconds.append(time.perf_counter() - due)

    await asyncio.gather(*(one() for _ in range(connections)))
    return answers


class _Turns:
    def __init__(self, rate: float) -> None:
        self._began = time.perf_counter()
        self._rate = rate
        self._given = 0

    def next(self) -> float:
        self._given += 1
        return self._began + self._given / self._rate


class _Connection:
    def __init__(self, url: str) -> None:
        self._place = urlsplit(url)

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._place.hostname, self._place.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(self, request: bytes) -> bytes:
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
        body = await self._reader.readexactly(int(fields[b"content-length"]))
        if not head.startswith(b"HTTP/1.1 2"):
            raise Refused(f"{head.split(bytes([13]), 1)[0].decode()}: {body[:300].decode(errors='replace')}")
        return body


def get(path: str, *, key: str, headers: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: daira\r\nAuthorization: Bearer {key}\r\n{headers}\r\n".encode()


def post_file(path: str, content: bytes, *, key: str) -> bytes:
    edge = "edge-of-a-part"
    body = (
        f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="letter.txt"\r\n'
        "Content-Type: text/plain\r\n\r\n"
    ).encode() + content
    body += f"\r\n--{edge}--\r\n".encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: daira\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: multipart/form-data; boundary={edge}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
