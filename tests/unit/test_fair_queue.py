"""Turns at what few can do at a time: bounded, fair to tenants, and never lost."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from app.domain.errors import TooMany, Unavailable
from app.domain.ids import TenantId
from app.services.fair_queue import FairSemaphore
from tests.unit.waiting import settled, until

ACME, GLOBEX, INITECH = map(TenantId, ("acme", "globex", "initech"))


class Crowd:
    """Who has had a turn, in order; each ends its own when told to."""

    def __init__(self, turns: FairSemaphore) -> None:
        self.turns = turns
        self.served: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.ends: dict[str, asyncio.Event] = {}

    async def join(self, tenant: TenantId, name: str) -> None:
        self.ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._turn(tenant, name))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _turn(self, tenant: TenantId, name: str) -> None:
        async with self.turns.turn(tenant):
            self.served.append(name)
            await self.ends[name].wait()

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await self.tasks[name]

    async def end_all(self) -> None:
        for end in self.ends.values():
            end.set()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def test_so_many_are_served_at_once_and_the_next_when_one_has_ended() -> None:
    crowd = Crowd(FairSemaphore(at_once=2))
    for name in ("a", "b", "c"):
        await crowd.join(ACME, name)
    assert crowd.served == ["a", "b"]
    await crowd.end("a")
    await until(lambda: crowd.served == ["a", "b", "c"])
    await crowd.end_all()
    assert crowd.turns.idle


async def test_tenants_are_served_one_after_the_other_however_many_wait_of_one() -> None:
    crowd = Crowd(FairSemaphore(at_once=1))
    for number in range(4):
        await crowd.join(ACME, f"acme {number}")
    for tenant in (GLOBEX, INITECH):
        for number in range(2):
            await crowd.join(tenant, f"{tenant} {number}")
    while not crowd.turns.idle:
        await crowd.end(crowd.served[-1])
        await settled()
    assert crowd.served == [*("acme 0", "acme 1", "globex 0", "initech 0", "acme 2", "globex 1", "initech 1", "acme 3")]
    assert crowd.turns.idle


async def test_who_gives_up_waiting_is_passed_over() -> None:
    crowd = Crowd(FairSemaphore(at_once=1))
    for name in ("a", "b", "c"):
        await crowd.join(ACME, name)
    crowd.tasks["b"].cancel()
    await crowd.end("a")
    await until(lambda: crowd.served == ["a", "c"])
    await crowd.end_all()
    assert crowd.turns.idle


async def test_a_turn_that_comes_as_one_gives_up_is_the_next_ones() -> None:
    crowd = Crowd(FairSemaphore(at_once=1))
    async with crowd.turns.turn(ACME):
        for name in ("b", "c"):
            await crowd.join(ACME, name)
    # Called, and nothing of it has run since.
    crowd.tasks["b"].cancel()
    await until(lambda: crowd.served == ["c"])
    await crowd.end_all()
    assert crowd.turns.idle


async def test_a_turn_is_passed_on_by_who_fails_in_it() -> None:
    turns = FairSemaphore(at_once=1)
    with pytest.raises(ZeroDivisionError):
        async with turns.turn(ACME):
            raise ZeroDivisionError
    assert turns.idle


async def test_more_than_so_many_are_sent_away_instead_of_waiting() -> None:
    crowd = Crowd(FairSemaphore(at_once=1, waiting=2))
    for name in ("a", "b", "c"):
        await crowd.join(ACME, name)
    with pytest.raises(Unavailable):
        async with crowd.turns.turn(GLOBEX):
            pass
    await crowd.end_all()
    assert crowd.turns.idle


async def test_nobody_waits_longer_than_patience() -> None:
    crowd = Crowd(FairSemaphore(at_once=1, patience=timedelta(milliseconds=10)))
    await crowd.join(ACME, "a")
    with pytest.raises(Unavailable):
        async with crowd.turns.turn(GLOBEX):
            pass
    await crowd.end("a")
    assert crowd.turns.idle


def test_one_tenant_may_have_so_many_that_it_has_not_taken() -> None:
    turns = FairSemaphore(at_once=1, of_one=2)
    turns.enter(ACME)
    turns.enter(ACME)
    with pytest.raises(TooMany):
        turns.enter(ACME)
    turns.enter(GLOBEX)
    turns.leave(ACME)
    turns.enter(ACME)
    for tenant in (ACME, ACME, GLOBEX):
        turns.leave(tenant)
    assert turns.idle


async def test_all_turns_are_there_again_whatever_happened() -> None:
    crowd = Crowd(FairSemaphore(at_once=3, patience=timedelta(milliseconds=30)))
    for number in range(30):
        await crowd.join((ACME, GLOBEX, INITECH)[number % 3], str(number))
    for number in range(0, 30, 4):
        crowd.tasks[str(number)].cancel()
    await crowd.end_all()
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(crowd.turns.turn(ACME))
    assert crowd.turns.idle


async def test_a_tenant_works_within_its_share_though_more_is_free() -> None:
    crowd = Crowd(FairSemaphore(at_once=3, share=2))
    for number in range(4):
        await crowd.join(ACME, f"acme {number}")
    assert crowd.served == ["acme 0", "acme 1"]
    await crowd.join(GLOBEX, "globex 0")
    assert crowd.served[2:] == ["globex 0"]
    await crowd.end("globex 0")
    assert len(crowd.served) == 3
    await crowd.end("acme 0")
    await until(lambda: crowd.served[3:] == ["acme 2"])
    await crowd.end_all()
    assert crowd.turns.idle


async def test_a_counted_turn_is_refused_beyond_the_tenants_number() -> None:
    turns = FairSemaphore(at_once=2, of_one=1)
    async with turns.counted_turn(ACME):
        with pytest.raises(TooMany):
            async with turns.counted_turn(ACME):
                pass
    assert turns.idle
