"""SQS seen by tests: our adapter opened, the queue without it, and a server that answers as it is told."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.adapters.sqs.doorbell import SqsDoorbell

PATIENCE = 10
"""Seconds."""


def set_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made up, and no others to be found."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up-secret")
    for name in ["AWS_SESSION_TOKEN", "AWS_PROFILE"]:
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def opened(
    queue: str, *, url: str, dropped: Callable[[int], object] = lambda _: None, fair: bool = True
) -> AsyncIterator[SqsDoorbell]:
    doorbell = SqsDoorbell(queue=queue, endpoint_url=url, region="us-east-1", dropped=dropped, fair=fair)
    try:
        await doorbell.open()
        yield doorbell
    finally:
        await doorbell.close()
        assert not doorbell._background


class Raw:
    """The queue, without our adapter."""

    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        self._url = url

    async def __call__(self, operation: str, **arguments: object) -> dict[str, Any]:
        answer: dict[str, Any] = await getattr(self._client, operation)(QueueUrl=self._url, **arguments)
        return answer

    async def bodies(self) -> list[str]:
        """Of the messages that anybody could receive now."""
        answer = await self("receive_message", MaxNumberOfMessages=10, WaitTimeSeconds=0)
        return sorted(message["Body"] for message in answer.get("Messages", []))

    async def becomes_empty(self) -> None:
        counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        async with asyncio.timeout(PATIENCE):
            while any(map(int, (await self("get_queue_attributes", AttributeNames=counts))["Attributes"].values())):
                await asyncio.sleep(0.02)


class Scripted:
    """An HTTP server that speaks SQS's JSON protocol: answers by operation, and what it was asked."""

    def __init__(self) -> None:
        self.asked: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.errors: dict[str, str] = {}
        """The code with which an operation is refused."""
        self.refuses: dict[str, Callable[[dict[str, Any]], bool]] = {}
        """Which requests of an operation are refused as invalid, whole."""
        self.answers: dict[str, list[Callable[[dict[str, Any]], object]]] = {}
        """The last one stays."""
        self.url = ""

    def answer(self, operation: str, request: dict[str, Any]) -> tuple[int, object]:
        self.asked[operation].append(request)
        code = self.errors.get(operation)
        if operation in self.refuses and self.refuses[operation](request):
            code = "InvalidParameterValue"
        if code:
            return 400, {"__type": f"com.amazonaws.sqs#{code}", "message": f"made-up-secret, acme: {request}"}
        if answers := self.answers.get(operation):
            return 200, (answers.pop(0) if len(answers) > 1 else answers[0])(request)
        if "Entries" in request:
            return 200, {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]], "Failed": []}
        return 200, {"QueueUrl": f"{self.url}/000000000000/daira-ocr"}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        (operation,) = (line.rpartition(".")[2] for line in lines if line.lower().startswith("x-amz-target"))
        request = json.loads(await reader.readexactly(int(headers["content-length"])))
        status, body = self.answer(operation, request)
        raw = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {len(raw)}\r\n"
        writer.write(head.encode() + b"connection: close\r\n\r\n" + raw)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


def failing(*names: str, silent_about: str = "") -> Callable[[dict[str, Any]], object]:
    """A batch's answer in which these entries failed, and one is not spoken of."""

    def answer(request: dict[str, Any]) -> object:
        ids = [entry["Id"] for entry in request["Entries"] if entry["Id"] != silent_about]
        return {
            "Successful": [{"Id": name} for name in ids if name not in names],
            "Failed": [{"Id": name, "Code": "InternalError", "SenderFault": False} for name in ids if name in names],
        }

    return answer
