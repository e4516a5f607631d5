"""Turns in Redis: how far fairness goes, what keeps a tenant in them, and where a lane ends."""

import asyncio
import time
from collections import Counter
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from app.adapters.redis import doorbell as adapter
from app.adapters.redis.doorbell import RedisDoorbell
from app.domain.doorbells import Ring, ring_message
from tests.conformance.doorbell_suite import (
    DEADLINE,
    LONG,
    NO_WAIT,
    SHORT,
    answered,
    collected,
    drained,
    new_rings,
    waiting,
)
from tests.support.redis_lane import Lane, blocked, command


def shares(rings: list[Ring]) -> dict[str, int]:
    return dict(Counter(ring.tenant_id for ring in rings))


class TestTurns:
    async def test_one_bell_for_each_in_turn_and_each_tenants_in_their_order(self, doorbell: RedisDoorbell) -> None:
        rings = {tenant: new_rings(count, tenant=tenant) for tenant, count in {"a": 4, "b": 2, "c": 1}.items()}
        for mine in rings.values():
            await doorbell.ring(mine)
        found = await collected(doorbell, 7, limit=1)
        assert [ring.tenant_id for ring in found] == ["a", "b", "c", "a", "b", "a", "a"]
        for tenant, mine in rings.items():
            assert [ring for ring in found if ring.tenant_id == tenant] == mine

    async def test_in_one_answer_too_all_have_the_same_share(self, doorbell: RedisDoorbell) -> None:
        await doorbell.ring(new_rings(100, tenant="whale"))
        await doorbell.ring(new_rings(100, tenant="orca") + new_rings(2, tenant="minnow"))
        assert shares(await answered(doorbell, limit=20)) == {"whale": 9, "orca": 9, "minnow": 2}
        assert shares(await answered(doorbell, limit=20)) == {"whale": 10, "orca": 10}

    async def test_what_is_left_over_of_an_answer_goes_to_whom_it_is_due(self, doorbell: RedisDoorbell) -> None:
        for tenant in ("a", "b", "c"):
            await doorbell.ring(new_rings(30, tenant=tenant))
        found = [await answered(doorbell, limit=4) for _ in range(3)]
        assert shares([ring for answer in found for ring in answer]) == {"a": 4, "b": 4, "c": 4}

    async def test_more_tenants_than_an_answer_has_room_for_wait_one_round(self, doorbell: RedisDoorbell) -> None:
        rings = [ring for number in range(50) for ring in new_rings(2, tenant=f"t{number}")]
        await doorbell.ring(rings)
        first = await collected(doorbell, 50, limit=10)
        assert set(shares(first).values()) == {1}
        assert sorted(first + await drained(doorbell)) == sorted(rings)

    async def test_ringing_again_gives_no_second_turn(self, doorbell: RedisDoorbell) -> None:
        whale, minnow = new_rings(20, tenant="whale"), new_rings(20, tenant="minnow")
        await doorbell.ring(minnow)
        for _ in range(5):
            await doorbell.ring(whale)
        assert shares(await collected(doorbell, 20, limit=1)) == {"whale": 10, "minnow": 10}

    async def test_who_goes_on_ringing_keeps_its_turn(self, doorbell: RedisDoorbell) -> None:
        for tenant in ("a", "b", "c"):
            await doorbell.ring(new_rings(10, tenant=tenant))
        found = []
        for _ in range(9):
            await doorbell.ring(new_rings(tenant="a"))
            found += await answered(doorbell, limit=1)
        assert shares(found) == {"a": 3, "b": 3, "c": 3}

    async def test_one_that_comes_late_waits_one_round_and_no_more(self, doorbell: RedisDoorbell) -> None:
        for number in range(5):
            await doorbell.ring(new_rings(20, tenant=f"t{number}"))
        await collected(doorbell, 40, limit=5)
        late = new_rings(tenant="late")
        await doorbell.ring(late)
        assert late[0] in await collected(doorbell, 6, limit=1)

    async def test_bells_whose_time_has_come_lie_with_their_own_tenant(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis
    ) -> None:
        await doorbell.ring(new_rings(2, tenant="a-b_9"))
        await doorbell.ring(new_rings(2, tenant="a-b_9") + new_rings(3), delay=timedelta(milliseconds=1))
        await asyncio.sleep(0.01)
        (first,) = await answered(doorbell, limit=1)
        assert first.tenant_id == "a-b_9"
        assert await admin.zcard(lane.bells("a-b_9")) == 3
        assert await admin.zcard(lane.bells("acme")) == 3
        assert await admin.zrange(lane.key("turns"), 0, -1) == [b"acme", b"a-b_9"]

    async def test_however_often_a_job_is_rung_it_has_one_bell(self, doorbell: RedisDoorbell) -> None:
        rings = new_rings(3)
        await doorbell.ring(rings + rings)
        # Nor does it lose its place by that.
        await doorbell.ring(rings[:1])
        await doorbell.ring(rings[:2], delay=timedelta(milliseconds=1))
        await asyncio.sleep(0.01)
        assert await drained(doorbell, limit=1) == rings
        await doorbell.ring(rings)
        assert await drained(doorbell) == rings

    async def test_a_bell_is_the_message_and_nothing_else(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis
    ) -> None:
        rings = new_rings(2)
        await doorbell.ring(rings)
        assert await admin.zrange(lane.bells(), 0, -1) == [ring_message(ring).encode() for ring in rings]

    async def test_an_empty_lane_leaves_nothing_behind(self, doorbell: RedisDoorbell, lane: Lane, admin: Redis) -> None:
        await doorbell.ring(new_rings(5) + new_rings(5, tenant="bolt"))
        await doorbell.ring(new_rings(5, tenant="coda"), delay=timedelta(milliseconds=1))
        await collected(doorbell, 15)
        assert await answered(doorbell, wait=NO_WAIT) == []
        assert [key async for key in admin.scan_iter(f"{lane.prefix}*")] == []


class TestGivingBack:
    async def test_bells_of_several_tenants_go_back_to_the_front(self, lane: Lane, doorbell: RedisDoorbell) -> None:
        rings = [ring for tenant in ("a", "b", "c") for ring in new_rings(3, tenant=tenant)]
        await doorbell.ring(rings)
        async with lane.doorbell() as quitter:
            # Into the hands of one who has stopped by then.
            looking = asyncio.create_task(quitter.answer(limit=4, wait=NO_WAIT))
            await asyncio.sleep(0)
            await quitter.stop_answering()
            assert await looking == []
        found = await collected(doorbell, 9, limit=1)
        assert [ring.tenant_id for ring in found] == ["a", "b", "c"] * 3
        assert sorted(found) == sorted(rings)
        assert [ring for ring in found if ring.tenant_id == "a"] == rings[:3]

    async def test_a_bell_that_was_rung_again_meanwhile_is_still_one(
        self, lane: Lane, doorbell: RedisDoorbell, admin: Redis
    ) -> None:
        rings = new_rings(2)
        await doorbell.ring(rings)
        await collected(doorbell, 2)
        await doorbell.ring(rings)
        await doorbell._return(keys=doorbell._keys.all(), args=[ring_message(ring) for ring in rings])
        assert await admin.get(lane.key("count")) == b"2"
        assert await drained(doorbell) == rings


class TestWaiting:
    async def test_one_bell_wakes_one_of_many(
        self, doorbell: RedisDoorbell, admin: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def scripts() -> int:
            return int((await admin.info("commandstats"))["cmdstat_evalsha"]["calls"])

        # A server that sees a script for the first time is called twice.
        await doorbell.ring(new_rings())
        assert await drained(doorbell)
        # Nobody looks again because its time was up.
        monkeypatch.setattr(adapter, "BLOCK", 60.0)
        waiters = [asyncio.create_task(answered(doorbell, limit=1)) for _ in range(10)]
        await blocked(admin, 10)
        before = await scripts()
        await doorbell.ring(new_rings())
        await asyncio.wait(waiters, timeout=DEADLINE, return_when=asyncio.FIRST_COMPLETED)
        # Time for others to look, if they were woken too.
        done, _ = await asyncio.wait(waiters, timeout=SHORT.total_seconds())
        # The ring and the taking, and no look of anybody else.
        assert (len(done), await scripts() - before) == (1, 2)
        await doorbell.ring(new_rings(9))
        await asyncio.gather(*waiters)

    async def test_who_is_woken_and_leaves_some_wakes_the_next(
        self, doorbell: RedisDoorbell, admin: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(adapter, "BLOCK", 4.0)
        waiters = [asyncio.create_task(answered(doorbell, limit=1)) for _ in range(5)]
        await blocked(admin, 5)
        start, rings = time.monotonic(), new_rings(5)
        await doorbell.ring(rings)
        found = await asyncio.gather(*waiters)
        assert sorted(ring for answer in found for ring in answer) == sorted(rings)
        assert time.monotonic() - start < 2

    async def test_a_waiter_that_dies_awake_strands_nobody(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis
    ) -> None:
        dead = asyncio.create_task(command(admin, "BLPOP", lane.key("wake"), 5))
        await blocked(admin)
        waiter = await waiting(doorbell)
        rings = new_rings()
        start = time.monotonic()
        await doorbell.ring(rings)
        await dead
        assert await waiter == rings
        assert time.monotonic() - start < adapter.BLOCK + 1

    async def test_a_cancelled_waiter_that_is_woken_wakes_another(
        self, lane: Lane, doorbell: RedisDoorbell, admin: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(adapter, "BLOCK", 4.0)
        monkeypatch.setattr(adapter, "LEFT_BEHIND", 6.0)
        async with lane.doorbell() as other:
            quitter = asyncio.create_task(answered(other))
            await blocked(admin)
            waiter = asyncio.create_task(answered(doorbell))
            await blocked(admin, 2)
            quitter.cancel()
            await asyncio.gather(quitter, return_exceptions=True)
            start, rings = time.monotonic(), new_rings()
            await doorbell.ring(rings)
            assert await waiter == rings
            assert time.monotonic() - start < 2


class TestLostKeys:
    """A server that is told to evict throws away what it likes. Whatever it is, ringing again makes it good."""

    @pytest.mark.parametrize("key", ["turns", "wake", "count", "bells:a", "bells:b"])
    async def test_ringing_again_makes_up_for_a_lost_key(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis, key: str
    ) -> None:
        rings = new_rings(3, tenant="a") + new_rings(3, tenant="b")
        await doorbell.ring(rings)
        await admin.delete(lane.key(key))
        await doorbell.ring(rings)
        found = await drained(doorbell, limit=1)
        assert sorted(found) == sorted(rings)
        assert sorted(ring.tenant_id for ring in found[:4]) == ["a", "a", "b", "b"]
        assert [left async for left in admin.scan_iter(f"{lane.prefix}*")] == []

    async def test_a_tenant_without_bells_takes_no_turn(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis
    ) -> None:
        rings = new_rings(3)
        await admin.zadd(lane.key("turns"), {f"ghost{number}": number for number in range(50)})
        await doorbell.ring(rings)
        assert await drained(doorbell, limit=1) == rings


class TestCapacity:
    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(adapter, "CAPACITY", 20)

    async def test_one_tenant_fills_half_of_a_lane(self, doorbell: RedisDoorbell) -> None:
        rings = new_rings(25)
        for start in range(0, 25, 5):
            await doorbell.ring(rings[start : start + 5])
        assert await drained(doorbell) == rings[:10]

    async def test_a_full_tenant_keeps_nobody_out(self, doorbell: RedisDoorbell) -> None:
        await doorbell.ring(new_rings(50, tenant="whale"))
        minnow = new_rings(3, tenant="minnow")
        await doorbell.ring(minnow)
        assert set(minnow) < set(await drained(doorbell))

    async def test_many_tenants_fill_a_lane_and_no_more(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis
    ) -> None:
        for _ in range(3):
            await doorbell.ring([ring for number in range(30) for ring in new_rings(2, tenant=f"t{number}")])
        assert await admin.get(lane.key("count")) == b"20"
        assert len(await drained(doorbell)) == 20

    async def test_room_is_made_by_taking_and_used_by_giving_back(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis
    ) -> None:
        await doorbell.ring(new_rings(50))
        taken = await answered(doorbell, limit=4)
        assert await admin.get(lane.key("count")) == b"6"
        await doorbell._return(keys=doorbell._keys.all(), args=[ring_message(ring) for ring in taken])
        assert await admin.get(lane.key("count")) == b"10"
        await doorbell.ring(new_rings(50))
        assert len(await drained(doorbell)) == 10

    async def test_of_delayed_bells_those_due_last_are_cut_off(
        self, doorbell: RedisDoorbell, lane: Lane, admin: Redis
    ) -> None:
        soon = new_rings(15)
        await doorbell.ring(new_rings(15), delay=LONG)
        await doorbell.ring(soon, delay=SHORT)
        assert await admin.zcard(lane.later) == 20
        async with asyncio.timeout(DEADLINE):
            found = await collected(doorbell, 10)
        assert found == soon[:10]
        assert await answered(doorbell, wait=NO_WAIT) == []
