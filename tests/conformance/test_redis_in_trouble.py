"""Redis that is away, silent, full or locked, and how the adapter tells and ends."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from app.adapters.redis import connection
from app.adapters.redis import doorbell as adapter
from app.adapters.redis.doorbell import RedisDoorbell
from app.domain.errors import Invalid, Unavailable
from tests.conformance.doorbell_suite import (
    LONG,
    NO_WAIT,
    SHORT,
    answered,
    collected,
    new_rings,
    waiting,
)
from tests.support.redis_lane import HOSTILE, Lane, blocked, command, connections, no_connection
from tests.support.valkey import Valkey


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

    async def test_a_full_server_refuses_bells_and_lets_go_of_those_it_has(
        self, doorbell: RedisDoorbell, admin: Redis
    ) -> None:
        rings = new_rings(3)
        await doorbell.ring(rings[:2])
        # To hand this one out is to write first.
        await doorbell.ring(rings[2:], delay=timedelta(milliseconds=1))
        await asyncio.sleep(0.01)
        await admin.config_set("maxmemory", "1")
        try:
            with pytest.raises(Unavailable, match="maxmemory"):
                await doorbell.ring(new_rings())
            # Only by letting them go can it become less full.
            assert await collected(doorbell, 3, limit=1) == rings
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
        rights = (
            "+@connection +evalsha +script|load +time +blpop +rpush +del +exists +get +incrby +decrby"
            " +zadd +zcard +zpopmin +zrange +zrem +zremrangebyrank"
        )
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
            await lane.forge(admin, HOSTILE["not text"])
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
