"""Slots that are fair over time: who makes room, who is served next, and a consumer with recognition slots."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from app.domain.doorbells import Lane, Ring
from app.domain.ids import TenantId
from app.domain.jobs import Job, JobState
from app.domain.leases import ClaimedJob, ClaimResult
from app.domain.outcomes import Done, Outcome, Yield
from app.ports.leases import ProgressReporter
from app.worker import fairness, heartbeat
from app.worker.consumer import Consumer
from app.worker.fairness import SLICE, RunningJob, next_in_turn, to_make_room
from tests.support.rig import KIND, Rig
from tests.unit.bench import Bench
from tests.unit.waiting import settled, until

ACME, BOLT, CORD, DUST = map(TenantId, ("acme", "bolt", "cord", "dust"))


def running(*tenants: TenantId, since: float = 0.0) -> list[RunningJob]:
    """One job of each, the first one the oldest."""
    return [RunningJob(tenant_id=tenant, since=since + place / 100) for place, tenant in enumerate(tenants)]


def places(jobs: list[RunningJob], chosen: list[RunningJob]) -> list[int]:
    return [jobs.index(job) for job in chosen]


@pytest.mark.parametrize(
    ("holding", "waiting", "slots", "chosen"),
    [
        pytest.param((ACME, ACME), {ACME}, 2, [], id="nobody else waits"),
        pytest.param((ACME, ACME), set(), 2, [], id="nobody waits"),
        pytest.param((ACME, ACME), {BOLT}, 2, [0], id="down to its share"),
        pytest.param((ACME, ACME), {ACME, BOLT}, 2, [0], id="its own next jobs do not count"),
        pytest.param((ACME, ACME), {BOLT}, 3, [], id="a slot is free"),
        pytest.param((ACME,) * 4, {BOLT}, 4, [0, 1], id="half each"),
        pytest.param((ACME,) * 4, {BOLT, CORD, DUST}, 4, [0, 1, 2], id="one each"),
        pytest.param((ACME, ACME, BOLT), {CORD}, 3, [0], id="who holds more makes room"),
        pytest.param((ACME, BOLT), {CORD, DUST}, 2, [], id="all at their share, and just begun"),
    ],
)
def test_tenants_beyond_their_share_make_room_for_those_who_wait(
    holding: Sequence[TenantId], waiting: set[TenantId], slots: int, chosen: list[int]
) -> None:
    jobs = running(*holding)
    assert places(jobs, to_make_room(jobs, waiting=waiting, slots=slots, now=1.0)) == chosen


def test_with_more_tenants_than_slots_the_oldest_goes_after_its_slice() -> None:
    jobs = running(ACME, BOLT)
    assert places(jobs, to_make_room(jobs, waiting={CORD}, slots=2, now=SLICE)) == [0]
    assert places(jobs, to_make_room(jobs, waiting={CORD, DUST}, slots=2, now=SLICE + 1)) == [0, 1]


def test_a_free_slot_goes_to_who_holds_least_and_then_in_rotation() -> None:
    waiting = [ACME, BOLT, CORD]
    assert next_in_turn(waiting, running=[], after=None) == [ACME, BOLT, CORD]
    assert next_in_turn(waiting, running=[], after=ACME) == [BOLT, CORD, ACME]
    assert next_in_turn(waiting, running=running(BOLT), after=ACME) == [CORD, ACME, BOLT]


class Scans:
    """A handler of jobs that need recognition; each reads until it must yield or is let go."""

    def __init__(self) -> None:
        self.recognizing: list[TenantId] = []
        self.turned_away: list[TenantId] = []
        self.open = asyncio.Event()

    async def __call__(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        tenant = job.lease.tenant_id
        if job.payload.get("text"):
            return Done()
        if not reporter.begin_recognition():
            self.turned_away.append(tenant)
            return Yield(recognition=True)
        self.recognizing.append(tenant)
        try:
            while not self.open.is_set():
                if reporter.must_yield:
                    return Yield(recognition=True)
                await asyncio.sleep(0.001)
        finally:
            self.recognizing.remove(tenant)
        return Done()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "TICK", 0.01)
    monkeypatch.setattr(fairness, "SHARE_EVERY", 0.01)


@pytest.fixture
def bench(rig: Rig) -> Bench:
    return Bench(rig=rig)


@asynccontextmanager
async def at_work(*consumers: Consumer) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(consumer.run()) for consumer in consumers]
    yield
    await asyncio.gather(*(consumer.stop() for consumer in consumers))
    async with asyncio.timeout(5):
        await asyncio.gather(*tasks)
        await asyncio.gather(*(consumer.drain() for consumer in consumers))


def with_recognition(bench: Bench, *, slots: int, recognition: int) -> Consumer:
    return Consumer(
        lane=Lane.OCR,
        kinds=frozenset({KIND}),
        slots=slots,
        recognition=recognition,
        doorbell=bench.bell,
        execution=bench.execution(),
        heart=bench.heart(),
        sweeping=bench.sweeping,
        sweep_every=timedelta(seconds=30),
        metrics=bench.metrics,
    )


async def all_done(bench: Bench, jobs: Sequence[Job]) -> bool:
    return {(await bench.rig.again(job)).state for job in jobs} == {JobState.DONE}


async def test_text_does_not_wait_for_scans(bench: Bench) -> None:
    bench.handler.act = scans = Scans()
    acme = await bench.rig.tenant("acme")
    async with at_work(with_recognition(bench, slots=4, recognition=2)):
        long = await bench.enqueue(acme, count=12)
        await until(lambda: len(scans.turned_away) == 10)
        assert scans.recognizing == [acme, acme]
        # Of the same tenant, behind all of its scans.
        text = await bench.enqueue(acme, count=3, payload={"text": True})
        await until(lambda: all_done(bench, text))
        assert scans.recognizing == [acme, acme]
        scans.open.set()
        await until(lambda: all_done(bench, long))
    assert [(await bench.rig.again(job)).failures for job in long] == [0] * 12


async def test_a_tenant_that_comes_later_gets_its_share_at_once_and_all_end(bench: Bench) -> None:
    bench.handler.act = scans = Scans()
    acme, bolt, cord = [await bench.rig.tenant(name) for name in ("acme", "bolt", "cord")]
    async with at_work(with_recognition(bench, slots=4, recognition=2)):
        jobs = await bench.enqueue(acme, count=6)
        await until(lambda: len(scans.recognizing) == 2)
        jobs += await bench.enqueue(bolt)
        await until(lambda: sorted(scans.recognizing) == [acme, bolt])
        # The job of `bolt` keeps its slot: nobody holds more than a share.
        await settled()
        assert sorted(scans.recognizing) == [acme, bolt]
        jobs += await bench.enqueue(cord)
        await until(lambda: cord in scans.recognizing, within=10)
        scans.open.set()
        await until(lambda: all_done(bench, jobs))
    rows = [await bench.rig.again(job) for job in jobs]
    assert {(row.failures, row.expiries, row.releases) for row in rows} == {(0, 0, 0)}


async def test_long_jobs_of_a_lane_without_recognition_make_room_too(bench: Bench) -> None:
    started: list[TenantId] = []
    let_go = asyncio.Event()

    async def act(job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        started.append(job.lease.tenant_id)
        while not let_go.is_set():
            if reporter.must_yield:
                return Yield()
            await asyncio.sleep(0.001)
        return Done()

    bench.handler.act = act
    acme, bolt = await bench.rig.tenant("acme"), await bench.rig.tenant("bolt")
    async with at_work(bench.consumer(slots=2)):
        jobs = await bench.enqueue(acme, count=5)
        await until(lambda: len(started) == 2)
        jobs += await bench.enqueue(bolt)
        await until(lambda: bolt in started)
        let_go.set()
        await until(lambda: all_done(bench, jobs))


async def test_a_worker_with_free_slots_hears_of_what_another_one_has_no_slot_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fairness, "RING_ON_EVERY", 0.01)
    bench.handler.act = scans = Scans()
    tenant = await bench.rig.tenant()
    async with at_work(*(with_recognition(bench, slots=2, recognition=1) for _ in range(2))):
        jobs = await bench.enqueue(tenant, count=4)
        await until(lambda: len(scans.recognizing) == 2)
        assert scans.turned_away
        scans.open.set()
        await until(lambda: all_done(bench, jobs))


async def test_a_recognition_slot_that_two_jobs_took_at_once_is_given_to_no_third(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {name: asyncio.Event() for name in ("first", "waiting", "quick", "third")}
    recognizing: list[str] = []
    turned_away: list[str] = []

    async def act(job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        name = str(job.payload["name"])
        if not reporter.begin_recognition():
            turned_away.append(name)
            return Yield(recognition=True)
        recognizing.append(name)
        await ends[name].wait()
        return Done()

    bench.handler.act = act
    tenant = await bench.rig.tenant()
    claim, filling, go_on = bench.rig.leases.claim, asyncio.Event(), asyncio.Event()

    async def slow_claim(rings: Sequence[Ring], **terms: Any) -> list[ClaimResult]:
        if turned_away == ["waiting"] and not go_on.is_set() and rings[0].job_id == waiting.id:
            filling.set()
            await go_on.wait()
        return await claim(rings, **terms)

    monkeypatch.setattr(bench.rig.leases, "claim", slow_claim)
    async with at_work(with_recognition(bench, slots=6, recognition=1)):
        jobs = await bench.enqueue(tenant, payload={"name": "first"})
        await until(lambda: recognizing == ["first"])
        (waiting,) = await bench.enqueue(tenant, payload={"name": "waiting"})
        await until(lambda: turned_away == ["waiting"])
        ends["first"].set()
        await filling.wait()
        jobs += await bench.enqueue(tenant, payload={"name": "quick"})
        await until(lambda: recognizing == ["first", "quick"])
        go_on.set()
        await until(lambda: recognizing == ["first", "quick", "waiting"])
        jobs += await bench.enqueue(tenant, payload={"name": "third"})
        await until(lambda: "third" in recognizing + turned_away)
        assert "third" not in recognizing
        for end in ends.values():
            end.set()
        await until(lambda: all_done(bench, [*jobs, waiting]))
