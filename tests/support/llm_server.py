"""A scriptable OpenAI-compatible server on loopback: it answers well, or fails as it is told to, and keeps a log.

In a test's own loop: `async with llm_server() as server: server.script("429:3", "cut", "good")`.
As a process: `python -m tests.support.llm_server --port 8089`, told what to do over HTTP:
`POST /script {"queue": ["hang"], "default": "good"}`, `POST /down {"seconds": 60}`, `GET /log`, `POST /reset`.
"""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from typing_extensions import override

from app.domain.llm.token_estimate import estimate_tokens
from tests.support import llm_troubles as _more_behaviours  # noqa: F401 - they are known by being imported
from tests.support.llm_answers import Prompt, prompt_of
from tests.support.llm_behaviours import behave, check
from tests.support.loopback import Loopback, read_request, until_left

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
        return estimate_tokens(self.prompt.text)


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
        await until_left(self._reader)
        self.asked.outcome = "left"


@dataclass(kw_only=True)
class LlmServer(Loopback):
    default: str = "good"
    rule: Rule | None = None
    """Asked first; None from it: the queue, then the default."""
    log: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def outcomes(self) -> list[str]:
        return [asked.outcome for asked in self.log]

    @override
    def script(self, *behaviours: str) -> None:
        check(*behaviours)
        super().script(*behaviours)

    async def down(self, seconds: float) -> None:
        await self.stop()
        await asyncio.sleep(seconds)
        await self.start()

    @override
    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self.at_work():
            request = await read_request(reader)
            body = json.loads(request.body) if request.body else {}
            asked = Asked(path=request.target, body=body, headers=request.headers, at=time.time())
            exchange = Exchange(asked, reader, writer)
            if request.target.partition("?")[0].endswith("/chat/completions"):
                await self._answer(exchange)
            else:
                await self._control(f"{request.method} {request.target}", body, exchange)

    async def _answer(self, exchange: Exchange) -> None:
        asked, started = exchange.asked, time.monotonic()
        asked.behaviour = (self.rule and self.rule(asked)) or self.next_behaviour()
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
