"""Small settles share a round trip, and neither a lost lease, an error nor a caller that leaves is shared with them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from app.domain.errors import Unavailable
from app.domain.ids import JobId, tenant_id, uuid7
from app.domain.jobs import AttemptOutcome, JobError, JobState
from app.domain.leases import Lease, SettledAttempt, Settlement
from app.services.settling import AT_ONCE, SettleBatcher
from tests.support.rig import Rig, done, memory_rig, retry


@dataclass(kw_only=True)
class Counted:
    """The real leases, with each call noted and held until it is let go."""

    rig: Rig
    calls: list[int] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettledAttempt | None]:
        self.calls.append(len(settlements))
        await self.open.wait()
        if any(s.error is not None and s.error.code == "unstorable" for s in settlements):
            raise ValueError("the store refuses this")
        if any(s.error is not None and s.error.code == "away" for s in settlements):
            raise Unavailable("the database can't be reached")
        return await self.rig.leases.settle(settlements)


def settling(counted: Counted) -> SettleBatcher:
    return SettleBatcher(counted)  # type: ignore[arg-type] # claims and beats are no part of it


async def leases_of(rig: Rig, count: int) -> list[Lease]:
    tenant = await rig.tenant()
    return [await rig.lease(await rig.enqueue(tenant)) for _ in range(count)]


def bad(lease: Lease, code: str) -> Settlement:
    return Settlement(
        lease=lease, state=JobState.FAILED, outcome=AttemptOutcome.FAIL, error=JobError(code=code, message="")
    )


async def test_what_ends_while_a_batch_is_written_goes_with_the_next() -> None:
    rig = memory_rig()
    counted = Counted(rig=rig)
    together = settling(counted)
    first, *others = await leases_of(rig, 8)
    lone = asyncio.create_task(together.settle(done(first)))
    while not counted.calls:
        await asyncio.sleep(0)
    rest = [asyncio.create_task(together.settle(done(lease))) for lease in others]
    await asyncio.sleep(0)
    counted.open.set()
    assert all(await asyncio.gather(lone, *rest))
    assert counted.calls == [1, 7]


async def test_a_batch_has_a_bound() -> None:
    rig = memory_rig()
    counted = Counted(rig=rig)
    counted.open.set()
    together = settling(counted)
    unknown = [Lease(tenant_id=tenant_id("acme"), job_id=JobId(uuid7()), attempt=1) for _ in range(AT_ONCE + 3)]
    assert not any(await asyncio.gather(*(together.settle(done(lease)) for lease in unknown)))
    assert counted.calls == [AT_ONCE, 3]


async def test_each_is_told_of_its_own_lease() -> None:
    rig = memory_rig()
    counted = Counted(rig=rig)
    counted.open.set()
    together = settling(counted)
    kept, lost = await leases_of(rig, 2)
    assert await rig.settle(retry(lost))
    held, none = await asyncio.gather(together.settle(done(kept)), together.settle(done(lost)))
    assert held is not None
    assert none is None


async def test_one_that_the_store_refuses_keeps_no_other_from_its_end() -> None:
    rig = memory_rig()
    counted = Counted(rig=rig)
    counted.open.set()
    together = settling(counted)
    one, refused, other = await leases_of(rig, 3)
    answers = await asyncio.gather(
        together.settle(done(one)),
        together.settle(bad(refused, "unstorable")),
        together.settle(done(other)),
        return_exceptions=True,
    )
    assert isinstance(answers[0], SettledAttempt)
    assert isinstance(answers[1], ValueError)
    assert isinstance(answers[2], SettledAttempt)
    assert await together.settle(done(refused))


async def test_a_store_out_of_reach_is_told_to_all_and_asked_once() -> None:
    rig = memory_rig()
    counted = Counted(rig=rig)
    counted.open.set()
    together = settling(counted)
    one, other = await leases_of(rig, 2)
    answers = await asyncio.gather(
        together.settle(bad(one, "away")), together.settle(done(other)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [Unavailable, Unavailable]
    assert counted.calls == [2]
    assert all(await asyncio.gather(together.settle(done(one)), together.settle(done(other))))


async def test_a_caller_that_leaves_takes_nobody_along() -> None:
    rig = memory_rig()
    counted = Counted(rig=rig)
    together = settling(counted)
    one, other = await leases_of(rig, 2)
    leaving = asyncio.create_task(together.settle(done(one)))
    staying = asyncio.create_task(together.settle(done(other)))
    while not counted.calls:
        await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    counted.open.set()
    assert await staying
