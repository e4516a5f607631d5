"""The heart: it beats whatever the handlers do, and stops them when their lease can't be kept."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise

import pytest

from app.domain.errors import Unavailable
from app.domain.ids import JobId, TenantId, uuid7
from app.domain.jobs import Progress
from app.domain.leases import BeatResult, ClaimedJob, Lease, LeaseBeat
from app.domain.outcomes import Done, Outcome
from app.ports.leases import Leases, ProgressReporter
from app.services.execution import Interruption
from app.worker import heartbeat
from app.worker.heartbeat import Heartbeat, HeldLease, monotonic, shared_leases
from tests.support.rig import SECOND, Rig, done
from tests.unit.bench import Bench
from tests.unit.waiting import until

LENGTH = timedelta(seconds=0.6)
TICK = 0.01


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "TICK", TICK)


class Noting:
    """Notes when which beats are sent; fails as it is told."""

    def __init__(self, inner: Leases, *, fault: Exception | None = None, hang: bool = False) -> None:
        self._inner = inner
        self.fault = fault
        self.hang = hang
        self.sent: list[tuple[float, list[LeaseBeat]]] = []

    async def beat(self, pulses: Sequence[LeaseBeat], *, lease: timedelta) -> list[BeatResult]:
        self.sent.append((monotonic(), list(pulses)))
        if self.hang:
            await asyncio.Event().wait()
        if self.fault is not None:
            raise self.fault
        return await self._inner.beat(pulses, lease=lease)

    def of(self, lease: Lease) -> list[float]:
        return [moment for moment, pulses in self.sent if lease in {pulse.lease for pulse in pulses}]


@asynccontextmanager
async def beating(leases: object, *, length: timedelta = LENGTH) -> AsyncIterator[Heartbeat]:
    beating = Heartbeat(lambda: shared_leases(leases), lease=length)  # type: ignore[arg-type]
    beating.start()
    try:
        yield beating
    finally:
        await beating.stop()


async def forever() -> object:
    return await asyncio.Event().wait()


@asynccontextmanager
async def working(hold: HeldLease) -> AsyncIterator["asyncio.Task[object]"]:
    """A handler at work under this hold."""
    work = asyncio.ensure_future(forever())
    hold.watch(work)
    try:
        yield work
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def test_a_pulse_is_due_at_a_third_of_the_lease_and_not_before() -> None:
    async def check() -> None:
        hold = HeldLease(a_lease(), claimed_at=100.0, length=timedelta(seconds=60))
        assert hold.pulse(now=100.0) is None
        assert hold.pulse(now=119.9) is None
        pulse = hold.pulse(now=120.0)
        assert pulse == LeaseBeat(lease=hold.lease)
        # A beat that was not accepted leaves it due.
        assert hold.pulse(now=121.0) is not None
        hold.renewed(pulse, sent_at=121.0)
        assert hold.pulse(now=140.9) is None
        assert hold.pulse(now=141.0) is not None

    asyncio.run(check())


def test_the_local_deadline_counts_from_when_the_last_accepted_beat_was_sent() -> None:
    async def check() -> None:
        hold = HeldLease(a_lease(), claimed_at=100.0, length=timedelta(seconds=60))
        assert hold.left(now=159.9) > 0
        assert hold.left(now=160.0) <= 0
        hold.renewed(LeaseBeat(lease=hold.lease), sent_at=130.0)
        assert hold.left(now=189.9) > 0
        assert hold.left(now=190.0) <= 0

    asyncio.run(check())


def test_progress_makes_a_pulse_due_and_is_told_until_it_is_accepted() -> None:
    async def check() -> None:
        hold = HeldLease(a_lease(), claimed_at=100.0, length=timedelta(seconds=60))
        first, second = (Progress(done=page, total=9, unit="page") for page in (1, 2))
        hold.report(first)
        told = hold.pulse(now=100.0)
        assert told == LeaseBeat(lease=hold.lease, progress=first)
        assert hold.pulse(now=101.0) == told
        hold.report(second)
        hold.renewed(told, sent_at=101.0)
        assert hold.pulse(now=101.0) == LeaseBeat(lease=hold.lease, progress=second)
        hold.renewed(LeaseBeat(lease=hold.lease, progress=second), sent_at=102.0)
        assert hold.pulse(now=102.0) is None
        assert hold.pulse(now=122.0) == LeaseBeat(lease=hold.lease)

    asyncio.run(check())


async def test_the_first_reason_stands_but_a_lost_lease_overrides() -> None:
    hold = HeldLease(a_lease(), claimed_at=0, length=SECOND)
    seen = [hold.interruption]
    for why in (
        Interruption.CANCELLED,
        Interruption.STOPPING,
        Interruption.LEASE_LOST,
        Interruption.CANCELLED,
    ):
        hold.interrupt(why)
        seen.append(hold.interruption)
    first, lost = Interruption.CANCELLED, Interruption.LEASE_LOST
    assert seen == [None, first, first, lost, lost]


async def test_work_that_is_watched_after_the_interruption_is_cancelled_too() -> None:
    hold = HeldLease(a_lease(), claimed_at=0, length=SECOND)
    hold.interrupt(Interruption.STOPPING)
    async with working(hold) as work:
        await until(work.cancelled)


async def test_a_lease_is_renewed_again_and_again_for_as_long_as_it_is_held(rig: Rig) -> None:
    leases = Noting(rig.leases)
    lease = await rig.lease(await rig.enqueue(await rig.tenant()))
    async with beating(leases) as heart:
        with heart.hold(lease, claimed_at=monotonic()) as hold:
            held_from = monotonic()
            async with working(hold) as work:
                await until(lambda: len(leases.of(lease)) >= 4)
                assert hold.interruption is None
                assert not work.done()
        beats = len(leases.of(lease))
        moments = [held_from, *leases.of(lease)]
        await until(lambda: monotonic() > moments[-1] + LENGTH.total_seconds() * 2 / 3)
        assert len(leases.of(lease)) == beats
    # Not more often than at a third of the lease, but for the time between the note and the pulse.
    for earlier, later in pairwise(moments):
        assert later - earlier >= LENGTH.total_seconds() / 3 - 0.1


async def test_a_beat_extends_the_lease_in_the_store(rig: Rig) -> None:
    job = await rig.enqueue(await rig.tenant())
    lease = await rig.lease(job)
    await rig.advance(SECOND)
    before = (await rig.again(job)).lease_until

    async def extended() -> bool:
        return (await rig.again(job)).lease_until != before

    async with beating(rig.leases) as heart:
        with heart.hold(lease, claimed_at=monotonic()):
            await until(extended)


async def test_one_beat_carries_all_leases_that_are_due(rig: Rig) -> None:
    leases = Noting(rig.leases)
    tenants = [await rig.tenant(name) for name in ("one", "two")]
    held = [await rig.lease(await rig.enqueue(tenant)) for tenant in tenants]
    async with beating(leases) as heart:
        now = monotonic()
        with heart.hold(held[0], claimed_at=now), heart.hold(held[1], claimed_at=now):
            await until(lambda: bool(leases.sent))
    assert {pulse.lease for pulse in leases.sent[0][1]} == set(held)


async def test_a_request_to_cancel_interrupts_the_handler(rig: Rig) -> None:
    job = await rig.enqueue(await rig.tenant())
    lease = await rig.lease(job)
    async with beating(rig.leases) as heart:
        with heart.hold(lease, claimed_at=monotonic()) as hold:
            async with working(hold) as work:
                await rig.cancel(job)
                await until(work.cancelled)
            assert hold.interruption is Interruption.CANCELLED


async def test_a_lost_lease_interrupts_the_handler(rig: Rig) -> None:
    job = await rig.enqueue(await rig.tenant())
    lease = await rig.lease(job)
    async with beating(rig.leases) as heart:
        with heart.hold(lease, claimed_at=monotonic()) as hold:
            async with working(hold) as work:
                await rig.expire(job)
                await rig.claimed(job, worker="successor")
                await until(work.cancelled)
            assert hold.interruption is Interruption.LEASE_LOST


async def test_a_deleted_document_interrupts_the_handler_of_its_job(rig: Rig) -> None:
    tenant = await rig.tenant()
    document = await rig.document(tenant)
    lease = await rig.lease(await rig.enqueue(tenant, document_id=document.id))
    async with beating(rig.leases) as heart:
        with heart.hold(lease, claimed_at=monotonic()) as hold:
            async with working(hold) as work:
                await rig.remove(document)
                await until(work.cancelled)
            assert hold.interruption is Interruption.LEASE_LOST


async def test_one_lost_lease_leaves_the_others_alone(rig: Rig) -> None:
    tenant = await rig.tenant()
    lost, kept = [await rig.enqueue(tenant) for _ in range(2)]
    leases = [await rig.lease(job) for job in (lost, kept)]
    async with beating(rig.leases) as heart:
        now = monotonic()
        with heart.hold(leases[0], claimed_at=now) as first, heart.hold(leases[1], claimed_at=now) as second:
            async with working(first) as stopped, working(second) as working_on:
                assert await rig.settle(done(leases[0]))
                await until(stopped.cancelled)
                assert not working_on.done()
                assert second.interruption is None


@pytest.mark.parametrize("fault", [Unavailable("away"), RuntimeError("odd"), TimeoutError()], ids=repr)
async def test_with_the_store_out_of_reach_the_local_deadline_interrupts_and_not_before(
    rig: Rig, fault: Exception
) -> None:
    length = timedelta(seconds=1)
    leases = Noting(rig.leases, fault=fault)
    lease = await rig.lease(await rig.enqueue(await rig.tenant()))
    async with beating(leases, length=length) as heart:
        claimed_at = monotonic()
        with heart.hold(lease, claimed_at=claimed_at) as hold:
            async with working(hold) as work:
                await until(work.cancelled)
            assert monotonic() - claimed_at >= length.total_seconds()
            assert hold.interruption is Interruption.LEASE_LOST
    # It did not give up trying before.
    assert len(leases.of(lease)) > 1


async def test_a_store_that_hangs_can_not_hide_the_local_deadline(rig: Rig) -> None:
    length = timedelta(seconds=0.6)
    leases = Noting(rig.leases, hang=True)
    lease = await rig.lease(await rig.enqueue(await rig.tenant()))
    async with beating(leases, length=length) as heart:
        claimed_at = monotonic()
        with heart.hold(lease, claimed_at=claimed_at) as hold:
            async with working(hold) as work:
                await until(work.cancelled)
            waited = monotonic() - claimed_at
    assert length.total_seconds() <= waited
    # A try that began just before the deadline may be waited for, a sixth of the lease; the rest is the machine's.
    assert waited < length.total_seconds() * 2
    assert len(leases.of(lease)) > 1


async def test_a_store_that_comes_back_in_time_interrupts_nobody(rig: Rig) -> None:
    leases = Noting(rig.leases, fault=Unavailable("away"))
    lease = await rig.lease(await rig.enqueue(await rig.tenant()))
    async with beating(leases, length=timedelta(seconds=2)) as heart:
        with heart.hold(lease, claimed_at=monotonic()) as hold:
            async with working(hold) as work:
                await until(lambda: len(leases.sent) >= 3)
                leases.fault = None
                tries = len(leases.sent)
                await until(lambda: len(leases.sent) >= tries + 2)
                assert not work.done()
            assert hold.interruption is None


async def test_the_heart_beats_on_while_the_main_loop_is_blocked(rig: Rig) -> None:
    leases = Noting(rig.leases)
    lease = await rig.lease(await rig.enqueue(await rig.tenant()))
    async with beating(leases) as heart:
        with heart.hold(lease, claimed_at=monotonic()) as hold:
            # What no handler should do, and one in a C extension may.
            time.sleep(LENGTH.total_seconds() * 1.5)  # noqa: ASYNC251
            beats = len(leases.of(lease))
            assert hold.interruption is None
    assert beats >= 2


async def test_progress_is_told_long_before_a_beat_is_due(rig: Rig) -> None:
    job = await rig.enqueue(await rig.tenant())
    lease = await rig.lease(job)
    async with beating(rig.leases, length=timedelta(hours=1)) as heart:
        with heart.hold(lease, claimed_at=monotonic()) as hold:
            for page in range(3):
                progress = Progress(done=page, total=3, unit="page")
                hold.report(progress)

                async def told(progress: Progress = progress) -> bool:
                    return (await rig.again(job)).progress == progress

                await until(told)


async def test_interrupting_all_interrupts_whatever_is_held(rig: Rig) -> None:
    tenant = await rig.tenant()
    leases = [await rig.lease(await rig.enqueue(tenant)) for _ in range(2)]
    async with beating(rig.leases) as heart:
        now = monotonic()
        with heart.hold(leases[0], claimed_at=now) as first, heart.hold(leases[1], claimed_at=now) as second:
            async with working(first) as one, working(second) as two:
                heart.interrupt_all(Interruption.STOPPING)
                await until(lambda: one.cancelled() and two.cancelled())
            assert first.interruption is second.interruption is Interruption.STOPPING


async def test_a_running_job_is_cancelled_from_request_to_row(rig: Rig) -> None:
    bench = Bench(rig=rig, lease=LENGTH)

    async def act(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        await asyncio.Event().wait()
        return Done()

    bench.handler.act = act
    job = await rig.enqueue(await rig.tenant())
    claimed = await rig.claimed(job)
    async with beating(rig.leases) as heart:
        with heart.hold(claimed.lease, claimed_at=monotonic()) as hold:
            attempt = asyncio.create_task(bench.execution().run(claimed, hold))
            await until(lambda: bool(bench.handler.running))
            await rig.cancel(job)
            async with asyncio.timeout(10):
                await attempt
    assert (await rig.again(job)).state == "cancelled"


def a_lease() -> Lease:
    return Lease(tenant_id=TenantId("acme"), job_id=JobId(uuid7()), attempt=1)
