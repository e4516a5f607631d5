"""The sweep: lost bells are rung again, lost workers' jobs go on, and nothing of it depends on the queue."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from typing_extensions import override

from app.adapters.memory.doorbell import MemoryDoorbell
from app.domain.doorbells import Ring
from app.domain.errors import Unavailable
from app.domain.ids import TenantId
from app.domain.jobs import APART, FIRST_RING_GRACE, MAX_EXPIRIES, RING_AGAIN, RING_AGAIN_CAP, WORKER_LOST, JobState
from app.domain.leases import ClaimOutcome
from app.domain.tenants import Limits
from app.ports.leases import SweptJob
from app.services import sweeping
from app.services.sweeping import Sweeper
from tests.support.rig import KIND, LEASE, SECOND, ring_of
from tests.unit.bench import Bench, Deaf

EARLY = frozenset({KIND})
LOST = FIRST_RING_GRACE + SECOND
"""By then a bell that was not heard is lost."""


class Wrong:
    """A scout that names tenants of its own choice."""

    def __init__(self, bench: Bench, *named: TenantId) -> None:
        self._sweeps = bench.rig.sweeps
        self._named = list(named)

    async def tenants_with_due_work(
        self,
        *,
        limit: int,
        early: frozenset[str] | None = None,  # noqa: ARG002 - a subclass uses it
        **_: object,
    ) -> list[TenantId]:
        return self._named[:limit]

    def __getattr__(self, name: str) -> object:
        return getattr(self._sweeps, name)

    def sweeping(self, bench: Bench) -> Sweeper:
        return Sweeper(sweeps=self, ringing=bench.ringing, metrics=bench.metrics)  # type: ignore[arg-type]


async def test_a_bell_that_was_lost_is_rung_again(bench: Bench) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())
    assert await bench.sweeping.sweep() == 0
    await bench.rig.advance(LOST)
    assert await bench.sweeping.sweep() == 1
    assert await bench.rung() == [ring_of(job)]
    assert bench.count("daira_sweep_rung_total") == 1


async def test_a_bell_is_rung_once_for_each_interval_and_the_intervals_grow(bench: Bench) -> None:
    await bench.rig.enqueue(await bench.rig.tenant())
    await bench.rig.advance(LOST)
    waits = []
    for _ in range(8):
        assert await bench.sweeping.sweep() == 1
        assert await bench.sweeping.sweep() == 0
        waited = timedelta()
        while not await bench.rig.sweeps.tenants_with_due_work(limit=1):
            await bench.rig.advance(SECOND)
            waited += SECOND
        waits.append(waited)
    assert timedelta() < waits[0] <= RING_AGAIN * 1.25 + SECOND
    assert waits[-1] <= RING_AGAIN_CAP * 1.25 + SECOND
    assert waits[4] > waits[0] * 4


async def test_a_job_that_is_not_due_is_left_alone(bench: Bench) -> None:
    await bench.rig.enqueue(await bench.rig.tenant(), run_in=timedelta(hours=1))
    await bench.rig.advance(timedelta(minutes=50))
    assert await bench.sweeping.sweep() == 0
    assert await bench.sweeping.sweep(early=EARLY) == 0
    await bench.rig.advance(timedelta(minutes=11))
    assert await bench.sweeping.sweep() == 1


async def test_jobs_that_have_ended_or_are_at_work_are_left_alone(bench: Bench) -> None:
    tenant = await bench.rig.tenant()
    ended, running = [await bench.rig.enqueue(tenant) for _ in range(2)]
    await bench.run(ended)
    await bench.rig.advance(LOST)
    await bench.rig.claimed(running)
    assert await bench.sweeping.sweep() == 0
    assert await bench.sweeping.full_pass() == 0
    assert await bench.rung() == []


async def test_a_job_whose_worker_was_lost_is_queued_and_rung_at_once(bench: Bench) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())
    await bench.rig.claimed(job)
    await bench.rig.advance(LEASE + SECOND)
    assert await bench.sweeping.sweep() == 1
    found = await bench.rig.again(job)
    assert (found.state, found.expiries, found.failures) == (JobState.QUEUED, 1, 0)
    assert await bench.rung() == [ring_of(job)]
    assert (await bench.rig.claim(ring_of(job))).outcome is ClaimOutcome.CLAIMED


async def test_a_job_that_loses_three_workers_has_failed_and_is_not_rung(bench: Bench) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())
    for _ in range(MAX_EXPIRIES):
        await bench.rung()
        await bench.rig.advance(APART)
        await bench.rig.claimed(job)
        await bench.rig.advance(LEASE + SECOND)
        await bench.sweeping.sweep()
    assert await bench.rung() == []
    found = await bench.rig.again(job)
    assert (found.state, found.error, found.expiries) == (JobState.FAILED, WORKER_LOST, 3)


async def test_a_queued_job_is_never_failed_for_being_old(bench: Bench) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())
    for _ in range(50):
        await bench.rig.advance(timedelta(days=10))
        await bench.sweeping.sweep()
    assert (await bench.rig.again(job)).state is JobState.QUEUED


async def test_the_next_ring_is_put_off_before_the_bell_is_rung(bench: Bench) -> None:
    tenant = await bench.rig.tenant()
    await bench.rig.enqueue(tenant)
    await bench.rig.advance(LOST)
    due: list[list[TenantId]] = []

    class Watching(MemoryDoorbell):
        @override
        async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
            due.append(await bench.rig.sweeps.tenants_with_due_work(limit=1))
            await super().ring(rings, delay=delay)

    bench.bell = Watching()
    assert await bench.sweeping.sweep() == 1
    assert due == [[]]


async def test_a_queue_that_is_away_costs_one_interval_and_no_job(bench: Bench) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())
    await bench.rig.advance(LOST)
    healthy, bench.bell = bench.bell, Deaf()
    await bench.sweeping.sweep()
    assert bench.count("daira_doorbells_total", event="failed") == 1
    assert await bench.rig.sweeps.tenants_with_due_work(limit=1) == []
    bench.bell = healthy
    await bench.rig.advance(RING_AGAIN * 1.25 + SECOND)
    assert await bench.sweeping.sweep() == 1
    assert await bench.rung() == [ring_of(job)]


async def test_an_early_pass_rings_for_jobs_whenever_they_were_rung_last(bench: Bench) -> None:
    tenant = await bench.rig.tenant()
    job = await bench.rig.enqueue(tenant)
    await bench.rig.enqueue(tenant, kind="other")
    for _ in range(2):
        assert await bench.sweeping.sweep(early=EARLY) == 1
        assert await bench.rung() == [ring_of(job)]


async def test_a_suspended_tenants_jobs_are_not_rung_until_it_is_resumed(bench: Bench) -> None:
    tenant = await bench.rig.tenant()
    job = await bench.rig.enqueue(tenant)
    await bench.rig.suspend(tenant)
    await bench.rig.advance(LOST)
    assert await bench.sweeping.sweep() == 0
    assert await bench.sweeping.full_pass() == 0
    await bench.rig.resume(tenant)
    assert await bench.sweeping.sweep() == 1
    assert await bench.rung() == [ring_of(job)]


async def test_a_pass_spreads_its_budget_over_the_tenants(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "BUDGET", 6)
    many, few = [await bench.rig.tenant(name) for name in ("many", "few")]
    for tenant, count in ((many, 50), (few, 2)):
        for _ in range(count):
            await bench.rig.enqueue(tenant)
    await bench.rig.advance(LOST)
    assert await bench.sweeping.sweep() == 5
    rung = [ring.tenant_id for ring in await bench.rung()]
    assert (rung.count(many), rung.count(few)) == (3, 2)


async def test_a_pass_stops_at_its_budget_and_the_next_one_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "BUDGET", 10)
    tenant = await bench.rig.tenant()
    jobs = [await bench.rig.enqueue(tenant) for _ in range(25)]
    await bench.rig.advance(LOST)
    assert [await bench.sweeping.sweep() for _ in range(4)] == [10, 10, 5, 0]
    assert sorted(await bench.rung()) == sorted(ring_of(job) for job in jobs)


async def test_a_pass_reaches_more_tenants_than_the_scout_names_at_a_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "TENANTS_AT_A_TIME", 2)
    jobs = [await bench.rig.enqueue(await bench.rig.tenant(f"tenant-{number}")) for number in range(5)]
    await bench.rig.advance(LOST)
    assert await bench.sweeping.sweep() == 5
    assert sorted(await bench.rung()) == sorted(ring_of(job) for job in jobs)


async def test_a_pass_ends_when_the_tenants_named_have_nothing_to_be_swept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "TENANTS_AT_A_TIME", 1)
    mistaken = Wrong(bench, await bench.rig.tenant()).sweeping(bench)
    # Their rows may be locked by another sweeper: asking again at once would only keep both busy.
    async with asyncio.timeout(5):
        assert await mistaken.sweep() == 0


@pytest.mark.threat(76)
async def test_the_full_pass_finds_what_a_blind_scout_missed_and_raises_the_alarm(bench: Bench) -> None:
    jobs = [await bench.rig.enqueue(await bench.rig.tenant(f"tenant-{number}")) for number in range(3)]
    await bench.rig.advance(LOST)
    blind = Wrong(bench).sweeping(bench)
    assert await blind.sweep() == 0
    assert await blind.full_pass() == 3
    assert sorted(await bench.rung()) == sorted(ring_of(job) for job in jobs)
    assert bench.count("daira_scout_missed_total") == 3


async def test_the_full_pass_raises_no_alarm_where_the_scout_sees(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "TENANTS_AT_A_TIME", 2)
    for number in range(5):
        await bench.rig.enqueue(await bench.rig.tenant(f"tenant-{number}"))
    await bench.rig.advance(LOST)
    assert await bench.sweeping.full_pass() == 0
    assert len(await bench.rung()) == 5
    assert bench.count("daira_scout_missed_total") == 0


async def test_what_became_due_since_the_scout_looked_is_no_alarm(bench: Bench) -> None:
    class Earlier(Wrong):
        """Sees nothing when it is asked first: there was nothing."""

        @override
        async def tenants_with_due_work(
            self, *, limit: int, early: frozenset[str] | None = None, **_: object
        ) -> list[TenantId]:
            if early is None:
                return []
            return await bench.rig.sweeps.tenants_with_due_work(limit=limit, early=early)

    job = await bench.rig.enqueue(await bench.rig.tenant())
    await bench.rig.advance(LOST)
    assert await Earlier(bench).sweeping(bench).full_pass() == 0
    assert await bench.rung() == [ring_of(job)]
    assert bench.count("daira_scout_missed_total") == 0


async def test_the_end_of_a_job_rings_for_one_that_waits_for_its_place(bench: Bench) -> None:
    tenant = await bench.rig.tenant()
    async with bench.rig.database.begin(tenant) as tx:
        assert await tx.tenant.set_limits(Limits(max_running=1))
    running, *waiting = [await bench.rig.enqueue(tenant) for _ in range(3)]
    await bench.rig.advance(SECOND)
    assert (await bench.run(running)).state is JobState.DONE
    assert await bench.rung() == [ring_of(waiting[0])]


async def test_the_end_of_a_job_without_a_cap_rings_for_nobody(bench: Bench) -> None:
    tenant = await bench.rig.tenant()
    running, _ = [await bench.rig.enqueue(tenant) for _ in range(2)]
    await bench.rig.advance(SECOND)
    await bench.run(running)
    assert await bench.rung() == []


async def test_a_refill_that_fails_is_left_to_the_sweep(bench: Bench) -> None:
    class Away(Wrong):
        async def sweep(self, *_: object, **__: object) -> list[SweptJob]:
            raise Unavailable("the database can't be reached")

    await Away(bench).sweeping(bench).refill(TenantId("acme"))
    assert await bench.rung() == []
