"""The Redis adapter keeps the contract, on a real server, and through what only happens to a server apart."""

import asyncio
import json
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from redis.asyncio import Redis
from redis.crc import key_slot

from app.adapters.redis import doorbell as adapter
from app.adapters.redis.doorbell import RedisDoorbell
from app.domain.doorbells import ring_message
from app.domain.errors import Unavailable
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
from tests.support.redis_lane import GOOD, HOSTILE, Lane, blocked


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
    @pytest.mark.threat(32, 33)
    @pytest.mark.parametrize("message", HOSTILE.values(), ids=HOSTILE)
    async def test_what_is_no_doorbell_is_dropped_and_its_neighbours_are_delivered(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis, message: bytes
    ) -> None:
        first, second = new_rings(2)
        await lane.forge(admin, ring_message(first), message, ring_message(second))
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
        await lane.forge(admin, *HOSTILE.values())
        await doorbell.ring(rings)
        async with asyncio.timeout(DEADLINE):
            assert await waiter == rings
        assert sum(lane.dropped) == len(HOSTILE)

    async def test_further_fields_are_ignored(self, doorbell: RedisDoorbell, lane: Lane, admin: Redis) -> None:
        (ring,) = new_rings()
        more = {"kind": "llm", "blob": "other/tenant", "priority": float("nan")}
        await lane.forge(admin, json.dumps(json.loads(ring_message(ring)) | more))
        assert await collected(doorbell, 1) == [ring]
        assert lane.dropped == []

    async def test_a_key_of_another_type_is_an_error_that_says_so(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis
    ) -> None:
        await admin.set(lane.key("turns"), "mine")
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

    async def test_a_bell_rung_under_a_stopped_worker_goes_to_another(
        self, lane: Lane, doorbell: RedisDoorbell, admin: Redis
    ) -> None:
        async with lane.doorbell() as stopped:
            waiter, rings = await waiting(stopped), new_rings(3)
            await blocked(admin)
            start = time.monotonic()
            await stopped.stop_answering()
            assert await waiter == []
            assert time.monotonic() - start < 0.5
            # The server still holds its wait, and wakes it first.
            await doorbell.ring(rings)
            assert await collected(doorbell, 3) == rings
        assert await drained(doorbell) == []

    async def test_a_bell_taken_in_the_moment_of_the_stop_goes_to_another(
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
        assert await admin.zcard(lane.bells()) == 2

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

    async def test_all_keys_of_a_lane_lie_on_one_node_of_a_cluster(
        self, lane: Lane, doorbell: RedisDoorbell, admin: Redis
    ) -> None:
        await doorbell.ring(new_rings() + new_rings(tenant="bolt"))
        await doorbell.ring(new_rings(), delay=LONG)
        keys = [key async for key in admin.scan_iter(f"{lane.prefix}*")]
        expected = {lane.key(name) for name in ("turns", "later", "wake", "count", "bells:acme", "bells:bolt")}
        assert {key.decode() for key in keys} == expected
        assert len({key_slot(key) for key in keys}) == 1
