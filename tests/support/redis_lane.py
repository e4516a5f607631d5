"""A lane of bells in a real Valkey, and a look at it from outside."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from app.adapters.redis.doorbell import RedisDoorbell
from app.domain.doorbells import ring_message
from tests.conformance.doorbell_suite import (
    DEADLINE,
    new_rings,
)
from tests.support.valkey import Valkey, running_valkey

GOOD = ring_message(new_rings()[0])
HOSTILE = {
    "nothing": b"",
    "not JSON": b"ring!",
    "not text": b"\xff\xfe\x00",
    "cut off": GOOD[:-2].encode(),
    "256 KB": json.dumps(json.loads(GOOD) | {"more": "x" * 262_144}).encode(),
    "deep nesting": b"[" * 1000,
    "very deep nesting": b'{"a":' * 100_000,
    "NUL": GOOD.replace("-", "\0").encode(),
    "NaN": b'{"job_id": NaN, "tenant_id": NaN}',
    "null": b"null",
    "a number": b"7",
    "a list": b'["job_id", "tenant_id"]',
    "a text": b'"job_id tenant_id"',
    "no tenant": json.dumps({"job_id": str(uuid4())}).encode(),
    "no job": b'{"tenant_id": "acme"}',
    "empty tenant": json.dumps({"job_id": str(uuid4()), "tenant_id": ""}).encode(),
    "bad tenant": json.dumps({"job_id": str(uuid4()), "tenant_id": "../Acme"}).encode(),
    "long tenant": json.dumps({"job_id": str(uuid4()), "tenant_id": "a" * 64}).encode(),
    "tenant is a number": json.dumps({"job_id": str(uuid4()), "tenant_id": 7}).encode(),
    "tenant is a list": json.dumps({"job_id": str(uuid4()), "tenant_id": ["acme"]}).encode(),
    "bad uuid": b'{"job_id": "7", "tenant_id": "acme"}',
    "job is an object": b'{"job_id": {}, "tenant_id": "acme"}',
}


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    with running_valkey() as server:
        yield server


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One test's own queue, and who answers it."""

    url: str
    prefix: str = field(default_factory=lambda: f"test-{uuid4().hex[:12]}")
    name: str = "ocr"
    dropped: list[int] = field(default_factory=list)

    @property
    def later(self) -> str:
        return self.key("later")

    def key(self, name: str) -> str:
        return f"{self.prefix}:{{{self.name}}}:{name}"

    def bells(self, tenant: str = "acme") -> str:
        return self.key(f"bells:{tenant}")

    async def forge(self, admin: Redis, *messages: bytes | str) -> None:
        """Puts what somebody else might behind a tenant's bells, past the adapter."""
        held = await admin.zcard(self.bells())
        for place, message in enumerate(messages, held + 1):
            await command(admin, "ZADD", self.bells(), place, message)
        await admin.zadd(self.key("turns"), {"acme": 1}, nx=True)
        await admin.lpush(self.key("wake"), "1")

    @asynccontextmanager
    async def doorbell(self, url: str = "") -> AsyncIterator[RedisDoorbell]:
        doorbell = RedisDoorbell(url or self.url, lane=self.name, dropped=self.dropped.append, prefix=self.prefix)
        try:
            yield doorbell
        finally:
            await doorbell.close()


@pytest.fixture
def lane(server: Valkey) -> Lane:
    return Lane(url=server.url)


@pytest.fixture
async def admin(server: Valkey) -> AsyncIterator[Redis]:
    async with Redis.from_url(server.socket_url) as admin:
        yield admin


@pytest.fixture
async def doorbell(lane: Lane, admin: Redis) -> AsyncIterator[RedisDoorbell]:
    async with lane.doorbell() as doorbell:
        yield doorbell
    await no_connection(admin)


async def no_connection(admin: Redis) -> None:
    """The server notices soon, not at once."""
    async with asyncio.timeout(DEADLINE):
        while await connections(admin):
            await asyncio.sleep(0.01)


async def connections(admin: Redis) -> list[str]:
    """Names of those that the adapter has open."""
    names = [client["name"] for client in await admin.client_list()]
    return [name for name in names if name.startswith("daira-")]


async def command(admin: Redis, *words: str | bytes | int) -> None:
    """One that the library has no typed method for."""
    await admin.execute_command(*words)  # type: ignore[no-untyped-call]


async def blocked(admin: Redis, count: int = 1) -> None:
    """So many waiters have reached the server and wait there."""
    async with asyncio.timeout(DEADLINE):
        while (await admin.info("clients"))["blocked_clients"] != count:
            await asyncio.sleep(0.005)
