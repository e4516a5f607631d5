"""A scriptable OpenAI-compatible server on loopback: it answers well, or fails as it is told to, and keeps a log.

In a test's own loop: `async with llm_server() as server: server.script("429:3", "cut", "good")`.
As a process: `python -m tests.support.llm_server --port 8089`, told what to do over HTTP:
`POST /script {"queue": ["hang"], "default": "good"}`, `POST /down {"seconds": 60}`, `GET /log`, `POST /reset`.
"""

import argparse
import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from app.domain.tokens import estimate
from tests.support import llm_troubles as _more_behaviours  # noqa: F401 - they are known by being imported
from tests.support.llm_answers import Prompt, prompt_of
from tests.support.llm_behaviours import behave, check

JSON = "application/json"

Rule = Callable[["Asked"], str | None]


@dataclass(kw_only=True)
class Asked:
    """One request, and what became of it."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    at: float
    """Seconds since the epoch."""
    behaviour: str = ""
    outcome: str = "open"
    """`answered`, `status 429`, …; `left` when the client went away first; `broken` when the server broke off."""
    seconds: float = 0.0
    sent: int = 0
    """Bytes of the answer."""

    @property
    def prompt(self) -> Prompt:
        return prompt_of(self.body)

    @property
    def tokens(self) -> int:
        return estimate(self.prompt.text)


class Exchange:
    """What a behaviour has in hand: a request, and the line on which it can say anything."""

    def __init__(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked = asked
        self._reader = reader
        self._writer = writer

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        self.asked.sent += len(data)
        await self._writer.drain()

    async def respond(self, status: int, body: bytes | object, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        told = {"Content-Type": JSON, "Content-Length": str(len(content)), "Connection": "close"}
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in told.items())]
        self.asked.outcome = "answered" if status == 200 else f"status {status}"
        await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + content)

    async def begin(self) -> None:
        await self.raw(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )

    async def event(self, data: object) -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        await self.chunk(f"data: {text}\n\n".encode())

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.raw(b"0\r\n\r\n")
        self.asked.outcome = "answered"

    async def until_left(self) -> None:
        """Silence, until the client goes away."""
        while await self._reader.read(1024):
            pass
        self.asked.outcome = "left"


@dataclass(kw_only=True)
class LlmServer:
    port: int = 0
    default: str = "good"
    rule: Rule | None = None
    """Asked first; None from it: the queue, then the default."""
    queue: deque[str] = field(default_factory=deque)
    log: list[Asked] = field(default_factory=list)
    active: int = 0
    most: int = 0
    """Requests at the same time, at the most."""
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def outcomes(self) -> list[str]:
        return [asked.outcome for asked in self.log]

    def script(self, *behaviours: str) -> None:
        """The next requests, one each."""
        check(*behaviours)
        self.queue.extend(behaviours)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """As a crash would: nobody is answered any more, and connections are refused."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def down(self, seconds: float) -> None:
        await self.stop()
        await asyncio.sleep(seconds)
        await self.start()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._handle(reader, writer)
        finally:
            self.active -= 1
            await _closed(writer, abort=task.cancelling() > 0)
            self._tasks.discard(task)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = head.split()
        body = json.loads(content) if content else {}
        asked = Asked(path=path, body=body, headers=headers, at=time.time())
        exchange = Exchange(asked, reader, writer)
        if path.partition("?")[0].endswith("/chat/completions"):
            await self._answer(exchange)
        else:
            await self._control(f"{method} {path}", body, exchange)

    async def _answer(self, exchange: Exchange) -> None:
        asked, started = exchange.asked, time.monotonic()
        asked.behaviour = (self.rule and self.rule(asked)) or (self.queue.popleft() if self.queue else self.default)
        self.log.append(asked)
        try:
            await behave(exchange, asked.behaviour)
        except ConnectionError:
            asked.outcome = "left"
        finally:
            asked.outcome = "broken" if asked.outcome == "open" else asked.outcome
            asked.seconds = time.monotonic() - started

    async def _instruct(self, body: Mapping[str, Any], exchange: Exchange) -> None:
        default = body.get("default", self.default)
        try:
            check(default)
            self.script(*body.get("queue", []))
        except ValueError as error:
            await exchange.respond(400, {"error": str(error)})
        else:
            self.default = default
            await exchange.respond(200, {})

    async def _control(self, route: str, body: Mapping[str, Any], exchange: Exchange) -> None:
        match route:
            case "GET /log":
                await exchange.respond(200, [asdict(asked) | {"tokens": asked.tokens} for asked in self.log])
            case "POST /script":
                await self._instruct(body, exchange)
            case "POST /reset":
                self.queue.clear()
                self.log.clear()
                self.default, self.most = "good", 0
                await exchange.respond(200, {})
            case "POST /down":
                await exchange.respond(200, {})
                self._later = asyncio.create_task(self.down(float(body.get("seconds", 1))))
            case "GET /v1/models":
                await exchange.respond(200, {"object": "list", "data": [{"id": "test", "object": "model"}]})
            case _:
                await exchange.respond(404, {"error": {"message": "not found", "type": "invalid_request_error"}})


async def _closed(writer: asyncio.StreamWriter, *, abort: bool) -> None:
    try:
        writer.transport.abort() if abort else writer.close()
        await writer.wait_closed()
    except (ConnectionError, asyncio.CancelledError):
        writer.transport.abort()


@asynccontextmanager
async def llm_server(**given: Any) -> AsyncIterator[LlmServer]:
    server = LlmServer(**given)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def _main(port: int, default: str) -> None:
    async with llm_server(port=port, default=default) as server:
        print(f"DAIRA_LLM_BASE_URL={server.url} DAIRA_LLM_MODEL=test", flush=True)  # noqa: T201 - its address is its answer
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--default", default="good", help="a behaviour, such as `good` or `slow:2`")
    arguments = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(_main(arguments.port, arguments.default))
