"""`Doorbell`: each bell wakes one worker, soon, and a wait that is given up takes none with it."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from app.domain.doorbells import Ring
from app.domain.ids import JobId, TenantId, uuid7
from app.ports.doorbell import Doorbell

NO_WAIT = timedelta()
SHORT = timedelta(seconds=0.2)
LONG = timedelta(seconds=20)
DEADLINE = 10
"""Seconds; far more than any adapter needs, and less than LONG."""


def new_rings(count: int = 1, *, tenant: str = "acme") -> list[Ring]:
    return [Ring(TenantId(tenant), JobId(uuid7())) for _ in range(count)]


async def answered(doorbell: Doorbell, *, limit: int = 10, wait: timedelta = LONG) -> list[Ring]:
    await asyncio.sleep(0)  # an adapter that always has an answer must not keep the deadline from passing
    deliveries = await doorbell.answer(limit=limit, wait=wait)
    await doorbell.acknowledge(deliveries)
    return [delivery.ring for delivery in deliveries]


async def collected(doorbell: Doorbell, count: int, *, limit: int = 10) -> list[Ring]:
    """So many rings, however they come."""
    found: list[Ring] = []
    async with asyncio.timeout(DEADLINE):
        while len(found) < count:
            found += await answered(doorbell, limit=limit)
    return found


async def drained(doorbell: Doorbell, *, limit: int = 10) -> list[Ring]:
    """All rings until none comes for a while."""
    found: list[Ring] = []
    async with asyncio.timeout(DEADLINE):
        while rings := await answered(doorbell, limit=limit, wait=SHORT):
            found += rings
    return found


async def waiting(doorbell: Doorbell) -> "asyncio.Task[list[Ring]]":
    """Somebody who has begun to wait."""
    waiter = asyncio.create_task(answered(doorbell, limit=1))
    done, _ = await asyncio.wait({waiter}, timeout=SHORT.total_seconds())
    assert not done
    return waiter


class DoorbellSuite:
    async def test_a_ring_is_delivered(self, doorbell: Doorbell) -> None:
        rings = new_rings(2) + new_rings(1, tenant="bolt")
        await doorbell.ring(rings)
        assert sorted(await collected(doorbell, 3)) == sorted(rings)
        assert await answered(doorbell, wait=NO_WAIT) == []

    async def test_ringing_for_nobody_is_no_error(self, doorbell: Doorbell) -> None:
        await doorbell.ring([])
        assert await answered(doorbell, wait=NO_WAIT) == []

    async def test_a_delayed_ring_wakes_a_waiting_worker_when_its_time_has_come(self, doorbell: Doorbell) -> None:
        loop = asyncio.get_running_loop()
        rings = new_rings()
        start = loop.time()
        await doorbell.ring(rings, delay=timedelta(seconds=0.3))
        assert await answered(doorbell, wait=NO_WAIT) == []
        assert await collected(doorbell, 1) == rings
        assert 0.25 <= loop.time() - start < DEADLINE / 2

    async def test_a_delayed_ring_keeps_back_no_other(self, doorbell: Doorbell) -> None:
        later, now = new_rings(), new_rings()
        await doorbell.ring(later, delay=timedelta(minutes=10))
        await doorbell.ring(now)
        assert await collected(doorbell, 1) == now
        assert await answered(doorbell, wait=SHORT) == []

    async def test_a_short_delay_ends_before_a_long_one_that_was_rung_first(self, doorbell: Doorbell) -> None:
        later, sooner = new_rings(), new_rings()
        await doorbell.ring(later, delay=timedelta(minutes=10))
        waiter = await waiting(doorbell)
        await doorbell.ring(sooner, delay=SHORT)
        async with asyncio.timeout(DEADLINE):
            assert await waiter == sooner

    async def test_a_delayed_job_that_is_rung_for_again_is_delivered_then(self, doorbell: Doorbell) -> None:
        rings = new_rings()
        await doorbell.ring(rings, delay=timedelta(minutes=10))
        await doorbell.ring(rings)
        assert await collected(doorbell, 1) == rings
        await doorbell.ring(rings, delay=timedelta(minutes=10))
        await doorbell.ring(rings, delay=SHORT)
        assert await collected(doorbell, 1) == rings

    async def test_an_answer_holds_no_more_than_asked_for(self, doorbell: Doorbell) -> None:
        rings = new_rings(5)
        await doorbell.ring(rings)
        first = await answered(doorbell, limit=2)
        assert 1 <= len(first) <= 2
        assert sorted(first + await collected(doorbell, 5 - len(first), limit=2)) == sorted(rings)

    async def test_a_wait_ends_empty(self, doorbell: Doorbell) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        async with asyncio.timeout(DEADLINE):
            assert await answered(doorbell, wait=SHORT) == []
        assert loop.time() - start >= SHORT.total_seconds() * 0.9

    async def test_a_ring_wakes_a_waiting_worker_promptly(self, doorbell: Doorbell) -> None:
        loop = asyncio.get_running_loop()
        waiter, rings = await waiting(doorbell), new_rings()
        start = loop.time()
        await doorbell.ring(rings)
        async with asyncio.timeout(DEADLINE):
            assert await waiter == rings
        assert loop.time() - start < 2

    async def test_several_rings_wake_several_workers(self, doorbell: Doorbell) -> None:
        waiters = [await waiting(doorbell) for _ in range(3)]
        rings = new_rings(3)
        await doorbell.ring(rings)
        async with asyncio.timeout(DEADLINE):
            found = await asyncio.gather(*waiters)
        assert sorted(ring for answer in found for ring in answer) == sorted(rings)

    async def test_each_ring_goes_to_one_worker(self, doorbell: Doorbell) -> None:
        rings = new_rings(60)
        await doorbell.ring(rings)
        found = await asyncio.gather(*(drained(doorbell, limit=7) for _ in range(3)))
        assert sorted(ring for answer in found for ring in answer) == sorted(rings)

    async def test_one_ring_does_not_wake_two_waiting_workers(self, doorbell: Doorbell) -> None:
        waiters = [asyncio.create_task(answered(doorbell, wait=timedelta(seconds=0.5))) for _ in range(2)]
        rings = new_rings()
        await doorbell.ring(rings)
        async with asyncio.timeout(DEADLINE):
            assert sorted(await asyncio.gather(*waiters)) == [[], rings]

    async def test_acknowledging_twice_or_nothing_is_no_error(self, doorbell: Doorbell) -> None:
        await doorbell.ring(new_rings())
        async with asyncio.timeout(DEADLINE):
            deliveries = await doorbell.answer(limit=1, wait=LONG)
        for _ in range(2):
            await doorbell.acknowledge(deliveries)
        await doorbell.acknowledge([])
        assert await answered(doorbell, wait=SHORT) == []

    async def test_a_cancelled_wait_takes_no_ring_with_it(self, doorbell: Doorbell) -> None:
        waiter, rings = await waiting(doorbell), new_rings(3)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        assert waiter.cancelled()
        await doorbell.ring(rings)
        assert sorted(await collected(doorbell, 3)) == sorted(rings)

    async def test_one_worker_giving_up_leaves_the_ring_to_another(self, doorbell: Doorbell) -> None:
        quitter, other = await waiting(doorbell), await waiting(doorbell)
        quitter.cancel()
        await asyncio.gather(quitter, return_exceptions=True)
        rings = new_rings()
        await doorbell.ring(rings)
        async with asyncio.timeout(DEADLINE):
            assert await other == rings

    async def test_after_the_stop_no_wait_is_answered_and_ringing_goes_on(self, doorbell: Doorbell) -> None:
        waiter = await waiting(doorbell)
        async with asyncio.timeout(DEADLINE):
            await doorbell.stop_answering()
            assert await waiter == []
            await doorbell.ring(new_rings())
            assert await answered(doorbell) == []

    async def test_the_queue_answers_a_ping(self, doorbell: Doorbell) -> None:
        await doorbell.ping()

    async def test_new_connections_ring_and_answer_like_the_old(self, doorbell: Doorbell) -> None:
        waiter = await waiting(doorbell)
        await doorbell.reconnect()
        rings = new_rings(2)
        await doorbell.ring(rings)
        async with asyncio.timeout(DEADLINE):
            heard = await waiter + await collected(doorbell, 1)
        assert sorted(heard) == sorted(rings)
        await doorbell.reconnect()
        await doorbell.ping()

    @pytest.mark.threat(67)
    async def test_a_tenant_with_many_bells_keeps_nobodys_one_waiting(self, doorbell: Doorbell) -> None:
        self.needs_fairness()
        await doorbell.ring(new_rings(200, tenant="whale"))
        late = new_rings(1, tenant="minnow")
        assert len(await collected(doorbell, 50)) == 50
        await doorbell.ring(late)
        # One of the round that is on may come first, and what one answer holds comes at once.
        assert late[0] in await collected(doorbell, 4, limit=2)

    async def test_tenants_are_served_in_turn(self, doorbell: Doorbell) -> None:
        self.needs_fairness()
        for tenant in ("a", "b", "c"):
            await doorbell.ring(new_rings(20, tenant=tenant))
        found = await collected(doorbell, 30, limit=3)
        shares = Counter(ring.tenant_id for ring in found)
        assert max(shares.values()) - min(shares.values()) <= 3, shares

    async def test_bells_whose_delay_is_over_take_their_turn_too(self, doorbell: Doorbell) -> None:
        self.needs_fairness()
        await doorbell.ring(new_rings(60, tenant="whale"), delay=SHORT)
        await asyncio.sleep(SHORT.total_seconds() * 2)
        await doorbell.ring(new_rings(60, tenant="whale"))
        minnow = new_rings(1, tenant="minnow")
        await doorbell.ring(minnow, delay=timedelta(milliseconds=1))
        await asyncio.sleep(0.05)
        assert minnow[0] in await collected(doorbell, 8, limit=4)

    async def test_whom_nobody_else_waits_for_is_served_without_pause(self, doorbell: Doorbell) -> None:
        rings = new_rings(30, tenant="whale")
        await doorbell.ring(rings)
        assert sorted(await collected(doorbell, 30, limit=30)) == sorted(rings)

    def needs_fairness(self) -> None:
        """An adapter whose server decides the order says so here, and skips."""
