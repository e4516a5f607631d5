"""The Redis adapter keeps the contract, on a real server, and through what only happens to a server apart."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from redis.crc import key_slot

from app.adapters.redis import connection
from app.adapters.redis import doorbell as adapter
from app.adapters.redis.doorbell import RedisDoorbell
from app.domain.doorbells import ring_message
from app.domain.errors import Invalid, Unavailable
from tests.conformance.doorbell_suite import (
    DEADLINE,
    LONG,
    NO_WAIT,
    SHORT,
    DoorbellSuite,
    answered,
    collected,
    drained,
    new_rings,
    waiting,
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
    def bells(self) -> str:
        return f"{self.prefix}:{{{self.name}}}:bells"

    @property
    def later(self) -> str:
        return f"{self.prefix}:{{{self.name}}}:later"

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


async def command(admin: Redis, *words: str) -> None:
    """One that the library has no typed method for."""
    await admin.execute_command(*words)  # type: ignore[no-untyped-call]


async def blocked(admin: Redis, count: int = 1) -> None:
    """So many waiters have reached the server and wait there."""
    async with asyncio.timeout(DEADLINE):
        while (await admin.info("clients"))["blocked_clients"] != count:
            await asyncio.sleep(0.005)


class TestRedisDoorbell(DoorbellSuite):
    @pytest.mark.parametrize("steps", range(12))
    async def test_a_wait_cancelled_just_when_it_rings_takes_no_ring_with_it(
        self, doorbell: RedisDoorbell, steps: int
    ) -> None:
        waiter, rings = await waiting(doorbell), new_rings(3)
        await doorbell.ring(rings)
        for _ in range(steps):
            await asyncio.sleep(0)
        waiter.cancel()
        (answer,) = await asyncio.gather(waiter, return_exceptions=True)
        taken = answer if isinstance(answer, list) else []
        assert sorted(taken + await collected(doorbell, 3 - len(taken))) == sorted(rings)
        assert await answered(doorbell, wait=NO_WAIT) == []

    async def test_a_wait_is_no_longer_than_asked_for(self, doorbell: RedisDoorbell) -> None:
        start = time.monotonic()
        assert await answered(doorbell, wait=NO_WAIT) == []
        assert await answered(doorbell, wait=SHORT) == []
        assert time.monotonic() - start < 0.9


class TestDelays:
    async def test_a_bell_that_is_delayed_while_all_wait_wakes_one_of_them(self, doorbell: RedisDoorbell) -> None:
        waiter, rings = await waiting(doorbell), new_rings()
        start = time.monotonic()
        await doorbell.ring(rings, delay=timedelta(seconds=0.5))
        assert await waiter == rings
        assert 0.45 <= time.monotonic() - start <= 0.5 + adapter.BLOCK + 0.5

    async def test_a_waiter_that_knows_of_a_delayed_bell_wakes_in_time(self, doorbell: RedisDoorbell) -> None:
        rings = new_rings()
        start = time.monotonic()
        await doorbell.ring(rings, delay=timedelta(seconds=0.3))
        assert await answered(doorbell) == rings
        assert 0.25 <= time.monotonic() - start <= 0.9

    async def test_a_job_delayed_twice_has_one_bell(self, doorbell: RedisDoorbell) -> None:
        rings = new_rings()
        for delay in (SHORT, timedelta(minutes=10)):
            await doorbell.ring(rings, delay=delay)
        assert await drained(doorbell) == []
        assert await collected(doorbell, 1) == rings
        assert await drained(doorbell) == []

    async def test_more_bells_come_due_at_once_than_a_script_can_move(self, doorbell: RedisDoorbell) -> None:
        rings = new_rings(9000)
        await doorbell.ring(rings, delay=timedelta(milliseconds=1))
        assert sorted(await collected(doorbell, 9000, limit=2000)) == sorted(rings)

    async def test_a_time_that_never_comes_holds_up_nobody(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis
    ) -> None:
        await admin.zadd(lane.later, {GOOD: float("inf")})
        rings = new_rings()
        waiter = await waiting(doorbell)
        await doorbell.ring(rings)
        assert await waiter == rings


class TestHostileMessages:
    @pytest.mark.parametrize("message", HOSTILE.values(), ids=HOSTILE)
    async def test_what_is_no_doorbell_is_dropped_and_its_neighbours_are_delivered(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis, message: bytes
    ) -> None:
        first, second = new_rings(2)
        await admin.rpush(lane.bells, ring_message(first), message, ring_message(second))
        async with asyncio.timeout(DEADLINE):
            assert await answered(doorbell, limit=10) == [first, second]
        assert lane.dropped == [1]

    @pytest.mark.parametrize("message", HOSTILE.values(), ids=HOSTILE)
    async def test_a_delayed_one_is_dropped_too(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis, message: bytes
    ) -> None:
        (good,) = new_rings()
        await admin.zadd(lane.later, {ring_message(good).encode(): 1, message: 2})
        assert await collected(doorbell, 1) == [good]
        assert await answered(doorbell, wait=NO_WAIT) == []
        assert lane.dropped == [1]

    async def test_a_waiter_goes_on_waiting_after_one(self, doorbell: RedisDoorbell, lane: Lane, admin: Redis) -> None:
        waiter, rings = await waiting(doorbell), new_rings()
        await admin.rpush(lane.bells, *HOSTILE.values())
        await doorbell.ring(rings)
        async with asyncio.timeout(DEADLINE):
            assert await waiter == rings
        assert sum(lane.dropped) == len(HOSTILE)

    async def test_further_fields_are_ignored(self, doorbell: RedisDoorbell, lane: Lane, admin: Redis) -> None:
        (ring,) = new_rings()
        more = {"kind": "llm", "blob": "other/tenant", "priority": float("nan")}
        await admin.rpush(lane.bells, json.dumps(json.loads(ring_message(ring)) | more))
        assert await collected(doorbell, 1) == [ring]
        assert lane.dropped == []

    async def test_a_key_of_another_type_is_an_error_that_says_so(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis
    ) -> None:
        await admin.set(lane.bells, "mine")
        with pytest.raises(Unavailable, match="WRONGTYPE"):
            await doorbell.answer(limit=1, wait=NO_WAIT)


class TestSharedQueue:
    async def test_two_workers_get_disjoint_bells(self, lane: Lane, doorbell: RedisDoorbell) -> None:
        rings = new_rings(500)
        async with lane.doorbell() as other:
            await doorbell.ring(rings)
            found = await asyncio.gather(drained(doorbell, limit=7), drained(other, limit=7))
        assert all(found)
        assert sorted(found[0] + found[1]) == sorted(rings)

    async def test_a_bell_popped_for_a_stopped_worker_goes_to_another(
        self, lane: Lane, doorbell: RedisDoorbell, admin: Redis
    ) -> None:
        async with lane.doorbell() as stopped:
            waiter, rings = await waiting(stopped), new_rings(3)
            await blocked(admin)
            start = time.monotonic()
            await stopped.stop_answering()
            assert await waiter == []
            assert time.monotonic() - start < 0.5
            # The server still holds its pop, and serves it first.
            await doorbell.ring(rings)
            assert await collected(doorbell, 3) == rings
        assert await drained(doorbell) == []

    async def test_a_bell_popped_in_the_moment_of_the_stop_goes_to_another(
        self, lane: Lane, doorbell: RedisDoorbell, admin: Redis
    ) -> None:
        for steps in range(12):
            async with lane.doorbell() as stopped:
                waiter, rings = asyncio.create_task(answered(stopped)), new_rings(3)
                await blocked(admin)
                await doorbell.ring(rings)
                for _ in range(steps):
                    await asyncio.sleep(0)
                await stopped.stop_answering()
                taken = await waiter
            assert sorted(taken + await collected(doorbell, 3 - len(taken))) == sorted(rings), steps
            assert await answered(doorbell, wait=NO_WAIT) == []

    async def test_many_who_wait_keep_no_ring_out(self, doorbell: RedisDoorbell, admin: Redis) -> None:
        waiters = [asyncio.create_task(answered(doorbell, limit=1)) for _ in range(30)]
        await blocked(admin, 30)
        rings = new_rings(30)
        async with asyncio.timeout(2):
            await doorbell.ring(rings)
            found = await asyncio.gather(*waiters)
        assert sorted(ring for answer in found for ring in answer) == sorted(rings)

    async def test_who_waits_gets_a_batch_up_to_the_limit(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis
    ) -> None:
        waiter, rings = asyncio.create_task(answered(doorbell, limit=3)), new_rings(5)
        await blocked(admin)
        await doorbell.ring(rings)
        assert await waiter == rings[:3]
        assert await admin.llen(lane.bells) == 2

    async def test_lanes_and_prefixes_are_queues_of_their_own(self, lane: Lane, doorbell: RedisDoorbell) -> None:
        rings = new_rings()
        await doorbell.ring(rings)
        async with (
            replace(lane, name="llm").doorbell() as other_lane,
            replace(lane, prefix="other").doorbell() as elsewhere,
        ):
            assert await answered(other_lane, wait=NO_WAIT) == []
            assert await answered(elsewhere, wait=NO_WAIT) == []
        assert await collected(doorbell, 1) == rings

    async def test_both_keys_of_a_lane_lie_on_one_node_of_a_cluster(
        self, lane: Lane, doorbell: RedisDoorbell, admin: Redis
    ) -> None:
        await doorbell.ring(new_rings())
        await doorbell.ring(new_rings(), delay=LONG)
        keys = [key async for key in admin.scan_iter(f"{lane.prefix}*")]
        assert sorted(keys) == [lane.bells.encode(), lane.later.encode()]
        assert len({key_slot(key) for key in keys}) == 1

    async def test_a_queue_that_nobody_answers_has_an_end(
        self, lane: Lane, doorbell: RedisDoorbell, admin: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(adapter, "CAPACITY", 10)
        rings = new_rings(15)
        for start in (0, 5, 10):
            await doorbell.ring(rings[start : start + 5])
        assert await admin.llen(lane.bells) == 10
        assert await drained(doorbell) == rings[:10]


class TestServerInTrouble:
    async def test_after_a_restart_it_works_again(self, server: Valkey, doorbell: RedisDoorbell) -> None:
        waiter = await waiting(doorbell)
        await doorbell.ping()
        server.stop()
        with pytest.raises(Unavailable, match="can't be reached"):
            await waiter
        for call in (doorbell.ping(), doorbell.ring(new_rings()), doorbell.answer(limit=1, wait=LONG)):
            with pytest.raises(Unavailable, match="can't be reached"):
                await call
        server.start()
        await server.answering()
        rings = new_rings(3)
        async with asyncio.timeout(5):
            await doorbell.ring(rings)
            assert await collected(doorbell, 3) == rings

    async def test_a_restart_between_two_calls_is_not_noticed(self, server: Valkey, doorbell: RedisDoorbell) -> None:
        waiter = await waiting(doorbell)
        await doorbell.ring(new_rings())
        await waiter
        server.stop()
        server.start()
        await server.answering()
        rings = new_rings()
        await doorbell.ring(rings)
        assert await collected(doorbell, 1) == rings

    async def test_a_flush_loses_bells_and_nothing_else(self, doorbell: RedisDoorbell, admin: Redis) -> None:
        await doorbell.ring(new_rings(3))
        await doorbell.ring(new_rings(3), delay=SHORT)
        await admin.flushall()
        await admin.script_flush()
        assert await answered(doorbell, wait=timedelta(seconds=0.5)) == []
        waiter, rings = await waiting(doorbell), new_rings()
        await admin.flushall()
        await doorbell.ring(rings)
        assert await waiter == rings

    async def test_a_server_that_says_nothing_is_noticed(
        self, server: Valkey, lane: Lane, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "ANSWER_TIMEOUT", 0.5)
        monkeypatch.setattr(adapter, "BLOCK", 0.3)
        async with lane.doorbell() as doorbell:
            waiter = await waiting(doorbell)
            with server.halted():
                async with asyncio.timeout(3):
                    with pytest.raises(Unavailable):
                        await waiter
                    with pytest.raises(Unavailable):
                        await doorbell.ring(new_rings())
            rings = new_rings()
            await doorbell.ring(rings)
            assert rings[0] in await collected(doorbell, 1)

    async def test_a_wait_is_no_silence(self, lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "ANSWER_TIMEOUT", 0.8)
        async with lane.doorbell() as doorbell:
            assert await answered(doorbell, wait=timedelta(seconds=1.5)) == []

    async def test_a_full_server_refuses_bells(self, doorbell: RedisDoorbell, admin: Redis) -> None:
        await admin.config_set("maxmemory", "1")
        try:
            with pytest.raises(Unavailable, match="maxmemory"):
                await doorbell.ring(new_rings())
        finally:
            await admin.config_set("maxmemory", "0")

    async def test_a_replica_refuses_bells(self, doorbell: RedisDoorbell, admin: Redis) -> None:
        await command(admin, "REPLICAOF", "127.0.0.1", "1")
        try:
            with pytest.raises(Unavailable, match="read only replica"):
                await doorbell.ring(new_rings())
            with pytest.raises(Unavailable, match="read only replica"):
                await doorbell.answer(limit=1, wait=NO_WAIT)
        finally:
            await command(admin, "REPLICAOF", "NO", "ONE")

    async def test_a_ring_that_is_cut_off_leaves_no_answer_to_the_next(
        self, server: Valkey, doorbell: RedisDoorbell
    ) -> None:
        await doorbell.ping()
        with server.halted(), pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await doorbell.ring(new_rings())
        assert len(await collected(doorbell, 1)) == 1
        await doorbell.ping()


class TestLogin:
    @pytest.fixture
    async def with_password(self, server: Valkey, admin: Redis) -> AsyncIterator[str]:
        """A URL to fill in; the right password is s3cret."""
        await command(admin, "ACL", "SETUSER", "worker", "on", ">s3cret", "~*", "+@all")
        yield server.url.replace("://", "://worker:{}@")
        await command(admin, "ACL", "DELUSER", "worker")

    async def test_the_right_password_opens(self, lane: Lane, with_password: str) -> None:
        async with lane.doorbell(with_password.format("s3cret")) as doorbell:
            rings = new_rings()
            await doorbell.ring(rings)
            assert await collected(doorbell, 1) == rings

    async def test_a_wrong_password_is_refused_and_not_told(self, lane: Lane, with_password: str) -> None:
        async with lane.doorbell(with_password.format("wr0ng-one")) as doorbell:
            for call in (doorbell.ping(), doorbell.ring(new_rings()), doorbell.answer(limit=1, wait=LONG)):
                with pytest.raises(Unavailable, match="refuses this login") as refusal:
                    await call
                assert "wr0ng-one" not in told(refusal.value)

    async def test_a_user_without_the_rights_is_told_which(self, lane: Lane, with_password: str, admin: Redis) -> None:
        await command(admin, "ACL", "SETUSER", "worker", "-evalsha")
        async with lane.doorbell(with_password.format("s3cret")) as doorbell:
            with pytest.raises(Unavailable, match="'evalsha'"):
                await doorbell.ring(new_rings())

    async def test_a_user_needs_no_more_rights_than_these(self, lane: Lane, with_password: str, admin: Redis) -> None:
        rights = "+@connection +evalsha +script|load +time +blmpop +lpop +lpush +rpush +ltrim +zadd +zrange +zrem"
        await command(admin, "ACL", "SETUSER", "worker", "-@all", "resetkeys", "~test-*", *rights.split())
        async with lane.doorbell(with_password.format("s3cret")) as doorbell:
            waiter, rings = await waiting(doorbell), new_rings()
            await doorbell.ring(rings, delay=SHORT)
            assert await waiter == rings
            await doorbell.ping()


def told(error: BaseException | None) -> str:
    """All that a log with a traceback would show."""
    text = ""
    while error is not None:
        text += f"{error} {error!r}\n"
        error = error.__cause__ or error.__context__
    return text


class TestAddress:
    async def test_a_socket_is_an_address_too(self, server: Valkey, lane: Lane) -> None:
        async with lane.doorbell(server.socket_url) as doorbell:
            rings = new_rings()
            await doorbell.ring(rings)
            assert await collected(doorbell, 1) == rings

    @pytest.mark.parametrize(
        "url", ["rediss://worker:s3cret@example.test:6380/2", "unix:///run/valkey.sock?db=1", "redis://[::1]:6379"]
    )
    async def test_a_connection_is_opened_by_the_first_call(self, lane: Lane, url: str) -> None:
        async with lane.doorbell(url):
            pass

    async def test_a_server_without_tls_is_no_server_for_rediss(
        self, server: Valkey, lane: Lane, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "CONNECT_TIMEOUT", 0.5)
        async with lane.doorbell(server.url.replace("redis://", "rediss://")) as doorbell:
            with pytest.raises(Unavailable, match="no answer in time"):
                await doorbell.ping()

    @pytest.mark.parametrize(
        "url",
        ["", "http://:s3cret@host", "redis://:s3cret/x@host:6379", "redis://:s3cret@host:port", "redis://[s3cret@host"],
    )
    async def test_what_is_no_address_is_refused_and_not_told(self, lane: Lane, url: str) -> None:
        with pytest.raises(Invalid) as refusal:
            RedisDoorbell(url, lane="ocr", dropped=lane.dropped.append)
        assert "s3cret" not in str(refusal.value)
        assert refusal.value.__suppress_context__

    async def test_a_query_in_the_url_changes_neither_timeouts_nor_parsing(
        self, server: Valkey, lane: Lane, admin: Redis
    ) -> None:
        async with lane.doorbell(f"{server.url}?socket_timeout=0.1&decode_responses=yes") as doorbell:
            assert await answered(doorbell, wait=timedelta(seconds=0.5)) == []
            await admin.rpush(lane.bells, HOSTILE["not text"])
            rings = new_rings()
            await doorbell.ring(rings)
            assert await collected(doorbell, 1) == rings
        assert lane.dropped == [1]


class TestClose:
    async def test_closing_leaves_no_connection_open(self, lane: Lane, admin: Redis) -> None:
        async with lane.doorbell() as doorbell:
            waiter = await waiting(doorbell)
            await doorbell.ring(new_rings())
            await waiter
            assert sorted(set(await connections(admin))) == ["daira-ocr", "daira-ocr-waits"]
        await no_connection(admin)

    async def test_closing_under_a_waiter_ends_the_wait_and_keeps_its_bell(
        self, lane: Lane, doorbell: RedisDoorbell, admin: Redis
    ) -> None:
        for steps in [*range(6)] * 12:
            async with lane.doorbell() as closed:
                waiter, rings = asyncio.create_task(answered(closed)), new_rings()
                await blocked(admin)
                await doorbell.ring(rings)
                for _ in range(steps):
                    await asyncio.sleep(0)
                await closed.close()
                taken = await waiter
            assert taken + await collected(doorbell, 1 - len(taken)) == rings, steps
            assert await answered(doorbell, wait=NO_WAIT) == []

    async def test_closing_while_the_server_is_silent_takes_seconds_only(
        self, server: Valkey, lane: Lane, admin: Redis
    ) -> None:
        async with lane.doorbell() as doorbell:
            waiter = await waiting(doorbell)
            await blocked(admin)
            with server.halted():
                async with asyncio.timeout(adapter.LEFT_BEHIND + 1):
                    await doorbell.close()
            assert await waiter == []
        await no_connection(admin)

    async def test_closing_twice_is_no_error(self, lane: Lane) -> None:
        async with lane.doorbell() as doorbell:
            await doorbell.ping()
            await doorbell.close()
