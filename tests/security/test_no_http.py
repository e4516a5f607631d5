"""What no parser of HTTP gets through is refused like anything else, and ends in no traceback."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.security.test_slow_clients import Listening, listening


@pytest.fixture
async def service() -> AsyncIterator[Listening]:
    async with listening(patience=5) as service:
        yield service


async def answers(service: Listening, sent: bytes) -> bytes:
    """All that is said until the connection ends."""
    reader, writer = await service.connect("")
    writer.write(sent)
    async with asyncio.timeout(10):
        said = await reader.read()
    writer.close()
    return said


@pytest.mark.parametrize(
    "sent",
    [
        "GET /v1/search?q=größe HTTP/1.1\r\nHost: daira\r\n\r\n".encode(),
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /v1/documents HTTP/1.1\r\nHost: daira\r\nContent-Length: -1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
    ids=["unencoded", "no host", "two hosts", "length below 0", "TLS"],
)
async def test_what_is_no_http_is_answered_with_a_problem(service: Listening, sent: bytes) -> None:
    head, _, body = (await answers(service, sent)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"Content-Type: application/problem+json" in head
    problem = json.loads(body)
    assert (problem["code"], problem["status"]) == ("invalid", 400)
    assert "percent-encode" in problem["detail"]
    assert f"X-Request-ID: {problem['request_id']}".encode() in head


async def test_a_body_that_breaks_after_its_answer_is_not_answered_once_more(
    service: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await service.connect(
        "POST /v1/documents HTTP/1.1\r\nHost: daira\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    async with asyncio.timeout(10):
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 401 ")
        writer.write(b"no chunk\r\n")
        assert await reader.read() == b""
    writer.close()
    assert [record.message for record in caplog.records if record.exc_info] == []


async def test_a_body_that_breaks_its_chunks_is_answered_once(
    service: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    head = f"POST /v1/documents HTTP/1.1\r\nHost: daira\r\nAuthorization: Bearer {service.key}\r\n"
    form = "Content-Type: multipart/form-data; boundary=x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    said = await answers(service, f"{head}{form}".encode())
    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.count(b"HTTP/1.1 ") == 1
    assert [record.message for record in caplog.records if record.exc_info] == []
