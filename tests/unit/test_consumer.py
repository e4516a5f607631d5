"""A lane's consumer: a slot before a bell, a claim before a handler, and a stop that loses nothing."""

import asyncio
import math
from collections.abc import Sequence
from datetime import timedelta

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from app.adapters.memory.doorbell import MemoryDoorbell
from app.domain.doorbells import Ring
from app.domain.errors import Unavailable
from app.domain.ids import JobId, TenantId, uuid7
from app.domain.jobs import Job, JobState
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Outcome
from app.ports.doorbell import DoorbellDelivery
from app.ports.leases import ProgressReporter
from app.worker import consumer, heartbeat
from app.worker.consumer import Consumer, SilentQueueError
from tests.support.rig import SECOND, Rig, ring_of
from tests.unit.bench import Away, Bench
from tests.unit.waiting import settled, until

MILLISECOND = timedelta(milliseconds=1)


class Noting(MemoryDoorbell):
    """Notes what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, timedelta]] = []
        self.acknowledged: list[DoorbellDelivery] = []

    @override
    async def answer(self, *, limit: int, wait: timedelta) -> list[DoorbellDelivery]:
        self.asked.append((limit, wait))
        return await super().answer(limit=limit, wait=wait)

    @override
    async def acknowledge(self, deliveries: Sequence[DoorbellDelivery]) -> None:
        self.acknowledged += deliveries


class Mute(MemoryDoorbell):
    """A queue that takes rings and delivers none, until so many reconnects."""

    def __init__(self, *, until: float = math.inf) -> None:
        super().__init__()
        self.reconnects = 0
        self._until = until

    @override
    async def answer(self, *, limit: int, wait: timedelta) -> list[DoorbellDelivery]:
        if self.reconnects < self._until:
            await asyncio.sleep(0)
            return []
        return await super().answer(limit=limit, wait=wait)

    @override
    async def reconnect(self) -> None:
        self.reconnects += 1


class Gate:
    """A handler that works until it is let go."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, _job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        await self.open.wait()
        return Done()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "TICK", 0.01)
    monkeypatch.setattr(consumer, "BACKOFF", MILLISECOND)


@pytest.fixture
def bench(rig: Rig) -> Bench:
    return Bench(rig=rig, bell=Noting())


def bell_of(bench: Bench) -> Noting:
    assert isinstance(bench.bell, Noting)
    return bench.bell


class Running:
    """A consumer at work for the length of a context, and stopped at its end."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    async def __aenter__(self) -> Consumer:
        self._task = asyncio.create_task(self.consumer.run())
        return self.consumer

    async def __aexit__(self, *_: object) -> None:
        await self.consumer.stop()
        async with asyncio.timeout(5):
            await self._task
            await self.consumer.drain()


async def are(bench: Bench, jobs: Sequence[Job], state: JobState) -> bool:
    return {(await bench.rig.again(job)).state for job in jobs} == {state}


async def test_jobs_that_are_rung_are_run_to_their_end(bench: Bench) -> None:
    jobs = await bench.enqueue(await bench.rig.tenant(), count=10)
    async with Running(bench.consumer(slots=3)):
        await until(lambda: are(bench, jobs, JobState.DONE))
    assert bench.count("daira_doorbells_total", event="received") == 10
    assert bench.count("daira_claims_total", outcome="claimed") == 10


async def test_jobs_of_all_tenants_are_run_under_their_own_clamp(bench: Bench) -> None:
    tenants = [await bench.rig.tenant(f"tenant-{number}") for number in range(5)]
    jobs = [job for tenant in tenants for job in await bench.enqueue(tenant, count=2)]
    async with Running(bench.consumer()):
        await until(lambda: are(bench, jobs, JobState.DONE))
    assert {job.lease.tenant_id for job in bench.handler.started} == set(tenants)


async def test_with_all_slots_busy_no_bell_is_taken(bench: Bench) -> None:
    bench.handler.act = gate = Gate()
    tenant = await bench.rig.tenant()
    busy = await bench.enqueue(tenant, count=2)
    async with Running(bench.consumer(slots=2)):
        await until(lambda: len(bench.handler.running) == 2)
        waiting = await bench.enqueue(tenant, count=3)
        asked = len(bell_of(bench).asked)
        await settled()
        assert len(bell_of(bench).asked) == asked
        # They are all still there for another worker.
        assert sorted(await bench.rung()) == sorted(ring_of(job) for job in waiting)
        assert await are(bench, waiting, JobState.QUEUED)
        gate.open.set()
        await until(lambda: are(bench, busy, JobState.DONE))


async def test_no_more_bells_are_asked_for_than_slots_are_free(bench: Bench) -> None:
    bench.handler.act = gate = Gate()
    tenant = await bench.rig.tenant()
    async with Running(bench.consumer(slots=3)):
        await bench.enqueue(tenant)
        await until(lambda: len(bench.handler.running) == 1)
        await until(lambda: len(bell_of(bench).asked) == 2)
        await bench.enqueue(tenant, count=5)
        await until(lambda: len(bench.handler.running) == 3)
        await settled()
        assert [limit for limit, _ in bell_of(bench).asked] == [3, 2]
        assert len(bench.handler.running) == 3
        gate.open.set()
        await until(lambda: len(bench.handler.started) == 6)
    assert max(limit for limit, _ in bell_of(bench).asked) == 3


async def test_a_free_slot_takes_the_next_bell(bench: Bench) -> None:
    jobs = await bench.enqueue(await bench.rig.tenant(), count=20)
    most = 0

    async def act(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        nonlocal most
        most = max(most, len(bench.handler.running))
        await settled(3)
        return Done()

    bench.handler.act = act
    async with Running(bench.consumer(slots=4)):
        await until(lambda: are(bench, jobs, JobState.DONE))
    assert most == 4


async def test_bells_are_acknowledged_once_the_claim_has_answered_and_not_before(bench: Bench) -> None:
    bench.handler.act = gate = Gate()
    acknowledged_at_claim: list[int] = []
    leases = bench.rig.leases

    class Watched:
        async def claim(self, *arguments: object, **named: object) -> object:
            acknowledged_at_claim.append(len(bell_of(bench).acknowledged))
            return await leases.claim(*arguments, **named)  # type: ignore[arg-type]

        def __getattr__(self, name: str) -> object:
            return getattr(leases, name)

    (job,) = await bench.enqueue(await bench.rig.tenant())
    unknown = Ring(TenantId("nobody"), JobId(uuid7()))
    await bench.bell.ring([unknown])
    execution = bench.execution(leases=Watched())  # type: ignore[arg-type]
    async with Running(bench.consumer(execution=execution)):
        # The handler still works: the receipt does not live as long as it does.
        await until(lambda: len(bell_of(bench).acknowledged) == 2)
        assert len(bench.handler.running) == 1
        gate.open.set()
    assert acknowledged_at_claim == [0]
    assert {delivery.ring for delivery in bell_of(bench).acknowledged} == {ring_of(job), unknown}


async def test_a_bell_that_could_not_be_claimed_is_kept_and_claimed_once_the_database_is_back(bench: Bench) -> None:
    """Its queue may not hand it out again, and one that has others to hand out leads to no early pass."""
    jobs = await bench.enqueue(await bench.rig.tenant())
    execution = bench.execution(leases=Away(bench.rig.leases, claim=3))
    async with Running(bench.consumer(execution=execution)):
        await until(lambda: are(bench, jobs, JobState.DONE))
        await until(lambda: len(bell_of(bench).acknowledged) == 1)
        assert bench.count("daira_doorbells_total", event="received") == 1


async def test_a_bell_whose_claim_fails_for_good_is_not_kept(bench: Bench) -> None:
    class Odd:
        async def claim(self, *_: object, **__: object) -> object:
            raise ValueError

        def __getattr__(self, name: str) -> object:
            return getattr(bench.rig.leases, name)

    await bench.enqueue(await bench.rig.tenant())
    execution = bench.execution(leases=Odd())  # type: ignore[arg-type]
    async with Running(bench.consumer(execution=execution)):
        await until(lambda: bench.count("daira_doorbells_total", event="received") == 1)
        # The next is asked for, so one that no claim ever answers does not stop the lane.
        await bench.bell.ring([Ring(TenantId("nobody"), JobId(uuid7()))])
        await until(lambda: bench.count("daira_doorbells_total", event="received") == 2)


@pytest.mark.threat(35)
async def test_duplicates_run_once(bench: Bench) -> None:
    jobs = await bench.enqueue(await bench.rig.tenant(), count=3)
    other = Noting()
    for _ in range(5):
        await bench.bell.ring([ring_of(job) for job in jobs])
        await other.ring([ring_of(job) for job in jobs])
    async with Running(bench.consumer(slots=8)), Running(bench.consumer(slots=8, doorbell=other)):
        await until(lambda: are(bench, jobs, JobState.DONE))
        await until(lambda: bench.count("daira_doorbells_total", event="received") == 33)
    assert len(bench.handler.started) == 3
    assert {job.attempts for job in [await bench.rig.again(job) for job in jobs]} == {1}


@pytest.mark.threat(30, 31)
async def test_forged_and_foreign_bells_are_harmless(bench: Bench) -> None:
    (mine,) = await bench.enqueue(await bench.rig.tenant("mine"))
    other = await bench.rig.tenant("other")
    forged = [Ring(other, mine.id), Ring(TenantId("nobody"), mine.id), Ring(other, JobId(uuid7()))]
    await bench.rung()
    await bench.bell.ring(forged)
    async with Running(bench.consumer(slots=8)):
        await until(lambda: len(bell_of(bench).acknowledged) == len(forged))
    assert bench.handler.started == []
    assert await are(bench, [mine], JobState.QUEUED)
    assert bench.count("daira_claims_total", outcome="missing_or_locked") == 3


async def test_a_queue_that_is_away_is_asked_again(bench: Bench) -> None:
    jobs = await bench.enqueue(await bench.rig.tenant())
    away = Away(bench.bell, answer=3)
    async with Running(bench.consumer(doorbell=away)):
        await until(lambda: are(bench, jobs, JobState.DONE))


async def test_a_queue_that_is_away_for_long_is_one_line_in_the_log(bench: Bench) -> None:
    jobs = await bench.enqueue(await bench.rig.tenant())
    with capture_logs() as logs:
        async with Running(bench.consumer(doorbell=Away(bench.bell, answer=300))):
            await until(lambda: are(bench, jobs, JobState.DONE))
    assert [line["event"] for line in logs].count("consumer_waits") == 1


async def test_an_error_that_nobody_foresaw_does_not_end_the_consumer(bench: Bench) -> None:
    class Odd(Noting):
        @override
        async def answer(self, *, limit: int, wait: timedelta) -> list[DoorbellDelivery]:
            if len(self.asked) < 3:
                self.asked.append((limit, wait))
                raise LookupError("odd")
            return await super().answer(limit=limit, wait=wait)

    bench.bell = Odd()
    jobs = await bench.enqueue(await bench.rig.tenant())
    async with Running(bench.consumer()):
        await until(lambda: are(bench, jobs, JobState.DONE))
    assert len(bell_of(bench).asked) >= 4


async def test_an_empty_queue_leads_to_an_early_pass_that_finds_jobs_whose_bells_were_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "SHORTEST_PATIENCE", MILLISECOND)
    jobs = [await bench.rig.enqueue(await bench.rig.tenant())]
    async with Running(bench.consumer()):
        await until(lambda: are(bench, jobs, JobState.DONE))
    assert bench.count("daira_sweep_rung_total") >= 1


async def test_early_passes_that_find_nothing_come_less_and_less_often(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "SHORTEST_PATIENCE", MILLISECOND)
    async with Running(bench.consumer(sweep_every=MILLISECOND * 6)):
        await until(lambda: len(bell_of(bench).asked) >= 5)
        waits = [wait / MILLISECOND for _, wait in bell_of(bench).asked[:5]]
        assert waits == [1, 2, 4, 6, 6]
        before = len(bell_of(bench).asked)
        (job,) = await bench.enqueue(await bench.rig.tenant())
        await until(lambda: are(bench, [job], JobState.DONE))
        # Work has come: lost bells are looked for soon again.
        await until(lambda: MILLISECOND in [wait for _, wait in bell_of(bench).asked[before:]])


def test_an_idle_worker_asks_for_an_early_pass_at_most_once_a_second() -> None:
    assert consumer.SHORTEST_PATIENCE >= SECOND


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "SHORTEST_PATIENCE", MILLISECOND)
    monkeypatch.setattr(consumer, "UNHEARD_AFTER", MILLISECOND * 20)


@pytest.mark.usefixtures("_impatient")
async def test_a_queue_that_takes_rings_and_delivers_none_is_left_and_then_ends_the_consumer(bench: Bench) -> None:
    bench.bell = mute = Mute()
    await bench.enqueue(await bench.rig.tenant())
    with capture_logs() as logs, pytest.raises(SilentQueueError, match="delivers none"):
        async with asyncio.timeout(10):
            await bench.consumer().run()
    assert mute.reconnects == 1
    assert [line["event"] for line in logs] == ["queue_silent"]


@pytest.mark.usefixtures("_impatient")
async def test_a_queue_that_new_connections_help_is_kept(bench: Bench) -> None:
    bench.bell = mute = Mute(until=1)
    jobs = await bench.enqueue(await bench.rig.tenant())
    async with Running(bench.consumer()):
        await until(lambda: are(bench, jobs, JobState.DONE))
    assert mute.reconnects == 1


@pytest.mark.usefixtures("_impatient")
async def test_an_idle_consumer_whose_table_has_nothing_due_waits_for_ever(bench: Bench) -> None:
    bench.bell = mute = Mute()
    async with Running(bench.consumer(sweep_every=MILLISECOND)):
        await asyncio.sleep(0.1)
    assert mute.reconnects == 0


@pytest.mark.usefixtures("_impatient")
async def test_a_queue_that_takes_no_rings_is_waited_for(bench: Bench) -> None:
    class Full(Mute):
        pings = 0

        @override
        async def ping(self) -> None:
            self.pings += 1
            raise Unavailable("the queue is full")

    bench.bell = full = Full()
    await bench.enqueue(await bench.rig.tenant())
    async with Running(bench.consumer()):
        await until(lambda: full.pings >= 3)
    assert full.reconnects == 0


async def test_a_queue_that_never_answers_is_asked_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hung(Noting):
        @override
        async def answer(self, *, limit: int, wait: timedelta) -> list[DoorbellDelivery]:
            if not self.asked:
                self.asked.append((limit, wait))
                await asyncio.Event().wait()
            return await super().answer(limit=limit, wait=wait)

    monkeypatch.setattr(consumer, "SHORTEST_PATIENCE", MILLISECOND)
    monkeypatch.setattr(consumer, "UNANSWERED_AFTER", MILLISECOND * 10)
    bench.bell = Hung()
    jobs = await bench.enqueue(await bench.rig.tenant())
    async with Running(bench.consumer()):
        await until(lambda: are(bench, jobs, JobState.DONE))


@pytest.mark.usefixtures("_impatient")
async def test_a_worker_whose_queue_is_silent_ends_its_process(bench: Bench) -> None:
    bench.bell = Mute()
    await bench.enqueue(await bench.rig.tenant())
    worker, told = bench.worker(), asyncio.Event()
    worker.terminate = told.set
    worker.start()
    async with asyncio.timeout(10):
        await told.wait()
        await worker.stop()
    assert worker.failure is not None
    assert "DAIRA_QUEUE_URL" in worker.failure


async def test_a_stopped_consumer_takes_no_more_bells_and_what_runs_goes_on(bench: Bench) -> None:
    bench.handler.act = gate = Gate()
    tenant = await bench.rig.tenant()
    (running,) = await bench.enqueue(tenant)
    stopped = bench.consumer(slots=2)
    task = asyncio.create_task(stopped.run())
    await until(lambda: len(bench.handler.running) == 1)
    await stopped.stop()
    async with asyncio.timeout(5):
        await task
    (waiting,) = await bench.enqueue(tenant)
    await settled()
    assert await are(bench, [running], JobState.CLAIMED)
    assert await are(bench, [waiting], JobState.QUEUED)
    gate.open.set()
    async with asyncio.timeout(5):
        await stopped.drain()
    assert await are(bench, [running], JobState.DONE)


async def test_a_consumer_with_all_slots_busy_stops_at_once(bench: Bench) -> None:
    bench.handler.act = gate = Gate()
    await bench.enqueue(await bench.rig.tenant())
    stopped = bench.consumer(slots=1)
    task = asyncio.create_task(stopped.run())
    await until(lambda: len(bench.handler.running) == 1)
    await settled()
    await stopped.stop()
    async with asyncio.timeout(2):
        await task
    gate.open.set()
    await stopped.drain()


async def test_draining_gives_up_when_its_time_is_over(bench: Bench) -> None:
    bench.handler.act = gate = Gate()
    await bench.enqueue(await bench.rig.tenant())
    async with Running(bench.consumer()) as slow:
        await until(lambda: len(bench.handler.running) == 1)
        async with asyncio.timeout(5):
            await slow.drain(at_most=MILLISECOND)
        assert len(bench.handler.running) == 1
        gate.open.set()


@pytest.mark.parametrize("slots", [1, 2, 5])
async def test_a_graceful_stop_lets_handlers_finish_within_the_grace(bench: Bench, slots: int) -> None:
    bench.handler.act = gate = Gate()
    jobs = await bench.enqueue(await bench.rig.tenant(), count=2)
    worker = bench.worker(slots=slots, grace=timedelta(seconds=20))
    worker.start()
    await until(lambda: len(bench.handler.running) == min(slots, 2))
    running = [job for job in jobs if job.id in {each.lease.job_id for each in bench.handler.running}]
    stopping = asyncio.create_task(worker.stop())
    await settled()
    assert not stopping.done()
    gate.open.set()
    async with asyncio.timeout(10):
        await stopping
    assert await are(bench, running, JobState.DONE)
    assert len(bench.handler.started) == len(running)


@pytest.mark.parametrize("slots", [1, 2, 5])
async def test_a_graceful_stop_gives_back_and_rings_what_is_not_finished_in_time(bench: Bench, slots: int) -> None:
    bench.handler.act = Gate()
    jobs = await bench.enqueue(await bench.rig.tenant(), count=min(slots, 3))
    worker = bench.worker(slots=slots, grace=MILLISECOND * 10)
    worker.start()
    await until(lambda: len(bench.handler.running) == len(jobs))
    async with asyncio.timeout(10):
        await worker.stop()
    for job in [await bench.rig.again(job) for job in jobs]:
        assert (job.state, job.releases, job.failures) == (JobState.QUEUED, 1, 0)
    # A stopped doorbell answers nobody, so another one is asked on its behalf.
    bench.bell._stopped = False
    assert sorted(await bench.rung()) == sorted(ring_of(job) for job in jobs)


async def test_beats_go_on_until_the_last_handler_has_ended(bench: Bench) -> None:
    bench.lease = timedelta(seconds=0.3)
    beats: list[bool] = []
    tenant = await bench.rig.tenant()

    async def slow_to_stop(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            held_until = (await bench.rig.again(job)).lease_until
            await bench.rig.advance(SECOND)
            await until(lambda: renewed(held_until))
            beats.append(True)
            raise
        return Done()

    async def renewed(held_until: object) -> bool:
        return (await bench.rig.again(job)).lease_until != held_until

    bench.handler.act = slow_to_stop
    # The store's clock stands still, so its lease does not run out while the handler is slow.
    (job,) = await bench.enqueue(tenant)
    worker = bench.worker(grace=MILLISECOND)
    worker.start()
    await until(lambda: len(bench.handler.running) == 1)
    async with asyncio.timeout(10):
        await worker.stop()
    assert beats == [True]
    assert (await bench.rig.again(job)).releases == 1
