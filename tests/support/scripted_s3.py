"""An HTTP server that answers S3's requests as it is told: what no real server can be made to do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

RESULT = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inside}</{name}>'
)


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        """The operation, by what tells them apart."""
        marks = {"uploads", "uploadId", "partNumber", "list-type", "delete"} & set(self.query)
        return " ".join([self.method, *sorted(marks)])


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    """The connection ends amid the body."""


def xml(name: str, inside: str = "", *, status: int = 200) -> Answer:
    return Answer(status=status, body=RESULT.format(name=name, inside=inside).encode())


def error(status: int, code: str) -> Answer:
    text = f"<Error><Code>{code}</Code><Message>made-up-secret, acme/name</Message></Error>"
    return Answer(status=status, body=text.encode())


BEGUN = xml("InitiateMultipartUploadResult", "<UploadId>an-upload</UploadId>")
PART = Answer(headers={"ETag": '"a-part"'})
COMPLETE = xml("CompleteMultipartUploadResult", "<ETag>&quot;all&quot;</ETag>")
NOTHING = Answer(status=204)

DEFAULTS = {
    "PUT": Answer(headers={"ETag": '"all"'}),
    "POST uploads": BEGUN,
    "PUT partNumber uploadId": PART,
    "POST uploadId": COMPLETE,
    "DELETE uploadId": NOTHING,
    "DELETE": NOTHING,
    "GET list-type": xml("ListBucketResult", "<Name>daira</Name>"),
    "GET uploads": xml("ListMultipartUploadsResult"),
    "POST delete": xml("DeleteResult"),
}


class Scripted:
    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.answers: dict[str, list[Answer | Callable[[Request], Answer]]] = {}
        """By kind; the last one stays."""
        self.held: dict[str, asyncio.Event] = {}
        """Requests of a kind wait for it, once they have come."""
        self.arrived: dict[str, asyncio.Event] = {}
        self.url = ""

    def kinds(self) -> list[str]:
        return [request.kind for request in self.asked]

    def hold(self, kind: str) -> tuple[asyncio.Event, asyncio.Event]:
        """What is set when such a request has come, and what lets it be answered."""
        self.arrived[kind], self.held[kind] = asyncio.Event(), asyncio.Event()
        return self.arrived[kind], self.held[kind]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _read(reader, writer)
        self.asked.append(request)
        if request.kind in self.held:
            self.arrived[request.kind].set()
            await self.held[request.kind].wait()
        told = self.answers.get(request.kind) or [DEFAULTS.get(request.kind, Answer())]
        answer = told.pop(0) if len(told) > 1 else told[0]
        answer = answer if isinstance(answer, Answer) else answer(request)
        length = len(answer.body) + answer.cut
        headers = {"Content-Length": str(length), "Connection": "close", **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + answer.body)
        await writer.drain()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, target, _ = lines[0].split(" ")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:] if line)}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    return Request(method=method, path=parts.path, query=query, headers=headers, body=body)


@asynccontextmanager
async def scripted() -> AsyncIterator[Scripted]:
    told = Scripted()
    server = await asyncio.start_server(told.serve, "127.0.0.1", 0)
    told.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield told
    for event in told.held.values():
        event.set()
    server.close()
    await server.wait_closed()
