"""The queue moves to another server while connections to the old one stay open and go on answering."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
from redis._parsers.base import BaseParser
from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError

from app.adapters.redis.connection import connect
from app.adapters.redis.doorbell import RedisDoorbell
from app.domain.errors import Unavailable
from app.services.ringing import PATIENCE
from tests.conformance.doorbell_suite import NO_WAIT, answered, collected, new_rings, waiting
from tests.support.endpoint import endpoint
from tests.support.redis_lane import Lane
from tests.support.valkey import Valkey, ValkeyPair, running_valkey


@pytest.fixture(scope="module")
def other() -> Iterator[Valkey]:
    with running_valkey() as server:
        yield server


@pytest.fixture
async def pair(server: Valkey, other: Valkey) -> AsyncIterator[ValkeyPair]:
    await other.follow(server)
    async with endpoint(server.port) as opened:
        yield ValkeyPair(first=server, second=other, endpoint=opened)
    for each in (server, other):
        await each.follow(None)


@pytest.fixture
async def moved(pair: ValkeyPair, lane: Lane) -> AsyncIterator[RedisDoorbell]:
    """A doorbell behind the endpoint."""
    lane = replace(lane, url=pair.url)
    async with lane.doorbell() as doorbell:
        yield doorbell


async def several_open(doorbell: RedisDoorbell, pair: ValkeyPair) -> None:
    """As many idle connections as a busy process has."""
    await asyncio.gather(*(doorbell.ping() for _ in range(8)))
    assert pair.endpoint.opened >= 8


class TestFailover:
    async def test_rings_and_answers_go_to_the_new_primary(self, pair: ValkeyPair, moved: RedisDoorbell) -> None:
        await several_open(moved, pair)
        await pair.fail_over()
        for _ in range(10):
            rings = new_rings(3)
            await moved.ring(rings)
            assert sorted(await collected(moved, 3)) == sorted(rings)
        await asyncio.gather(*(moved.ping() for _ in range(10)))

    async def test_who_waits_hears_the_new_bells(self, pair: ValkeyPair, moved: RedisDoorbell, lane: Lane) -> None:
        waiter = await waiting(moved)
        await pair.fail_over()
        rings = new_rings()
        async with replace(lane, url=pair.second.url).doorbell() as ringer:
            await ringer.ring(rings)
        async with asyncio.timeout(5):
            assert await waiter == rings

    async def test_a_replica_that_answers_is_no_queue(self, pair: ValkeyPair, moved: RedisDoorbell) -> None:
        await moved.ping()
        await pair.demote(pair.first)
        async with Redis.from_url(pair.first.url) as client:
            assert await client.ping()
        with pytest.raises(Unavailable, match="takes no writes: You can't write against a read only replica"):
            await moved.ping()
        # Each call asks the endpoint anew, for it may lead elsewhere by then.
        before = pair.endpoint.opened
        with pytest.raises(Unavailable, match="takes no writes"):
            await moved.answer(limit=1, wait=NO_WAIT)
        assert pair.endpoint.opened > before

    async def test_a_dead_host_is_left_within_one_ring(self, pair: ValkeyPair, moved: RedisDoorbell) -> None:
        """Nothing ends them: only a caller's patience does, and it must not be needed for each of them."""
        await several_open(moved, pair)
        pair.endpoint.silence()
        pair.endpoint.target = pair.second.port
        await pair.second.follow(None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(PATIENCE.total_seconds()):
                await moved.ring(new_rings())
        rings = new_rings()
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await moved.ring(rings)
        assert await answered(moved) == rings


def refusal(answer: str) -> Exception:
    error: Exception = BaseParser.parse_error(answer)  # type: ignore[no-untyped-call]
    return error


class TestServerThatTakesNoWrites:
    """Each is left for whichever server the address leads to next."""

    async def test_one_without_its_replicas_is_left_for_the_next(
        self, pair: ValkeyPair, moved: RedisDoorbell, admin: Redis
    ) -> None:
        """As the settings of a cluster make it that fears two primaries at once."""
        await pair.second.follow(None)
        await moved.ping()
        await admin.config_set("min-replicas-to-write", "1")
        try:
            for call in (moved.ping(), moved.ring(new_rings()), moved.answer(limit=1, wait=NO_WAIT)):
                with pytest.raises(Unavailable, match="takes no writes: NOREPLICAS"):
                    await call
            pair.endpoint.target = pair.second.port
            rings = new_rings()
            await moved.ring(rings)
            assert await answered(moved) == rings
        finally:
            await admin.config_set("min-replicas-to-write", "0")

    async def test_one_that_cannot_save_is_left_for_the_next(
        self, pair: ValkeyPair, moved: RedisDoorbell, admin: Redis
    ) -> None:
        await pair.second.follow(None)
        await moved.ping()
        await admin.config_set("save", "3600 1")
        # A folder of the snapshot's name: it is written and can't be put in its place.
        blocker = pair.first.folder / "dump.rdb"
        blocker.mkdir()
        try:
            await admin.bgsave()
            async with asyncio.timeout(10):
                while (await admin.info("persistence"))["rdb_last_bgsave_status"] == "ok":
                    await asyncio.sleep(0.05)
            with pytest.raises(Unavailable, match="takes no writes: MISCONF"):
                await moved.ring(new_rings())
            with pytest.raises(Unavailable, match="takes no writes: MISCONF"):
                await moved.ping()
            pair.endpoint.target = pair.second.port
            rings = new_rings()
            await moved.ring(rings)
            assert await answered(moved) == rings
        finally:
            await admin.config_set("save", "")
            blocker.rmdir()

    async def test_a_full_one_is_not_ready_and_kept(self, pair: ValkeyPair, moved: RedisDoorbell, admin: Redis) -> None:
        await moved.ping()
        await admin.config_set("maxmemory", "1")
        try:
            before = pair.endpoint.opened
            with pytest.raises(Unavailable, match="maxmemory"):
                await moved.ping()
            assert pair.endpoint.opened == before
        finally:
            await admin.config_set("maxmemory", "0")

    @pytest.mark.parametrize(
        "answer",
        [
            "READONLY You can't write against a read only replica.",
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "NOREPLICAS Not enough good replicas to write. script: f00, on @user_script:46.",
            "CLUSTERDOWN The cluster is down",
            "MISCONF Errors writing to the AOF file: No space left on device",
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        ],
    )
    async def test_its_answer_ends_the_connection_and_the_command_is_sent_again(self, answer: str) -> None:
        answers: list[Exception] = [refusal(answer)]
        closed: list[str] = []

        async def command() -> str:
            if answers:
                raise answers.pop()
            return "done"

        async def close(error: Exception) -> None:
            closed.append(str(error))

        client = connect("redis://127.0.0.1:1", name="test", connections=1)
        retry = client.connection_pool.connection_kwargs["retry"]
        assert await retry.call_with_retry(command, close) == "done"
        assert len(closed) == 1

    async def test_an_answer_about_the_command_ends_nothing(self) -> None:
        async def command() -> None:
            raise refusal("OOM command not allowed when used memory > 'maxmemory'.")

        async def close(error: Exception) -> None:
            raise AssertionError(error)

        client = connect("redis://127.0.0.1:1", name="test", connections=1)
        with pytest.raises(OutOfMemoryError):
            await client.connection_pool.connection_kwargs["retry"].call_with_retry(command, close)
