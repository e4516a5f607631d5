"""`Sweeps`: no job is lost with its worker or its bell, and no queue is flooded."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from app.domain.doorbells import Ring
from app.domain.ids import TenantId
from app.domain.jobs import APART, FIRST_RING_GRACE, WORKER_LOST, AttemptOutcome, Job, JobState
from app.domain.leases import ClaimOutcome
from app.ports.leases import Backlog, SweptJob
from tests.support.rig import KIND, LEASE, SECOND, Rig, done, fail, put_back, ring_of

GRACE = FIRST_RING_GRACE + SECOND
EARLY = frozenset({KIND})


async def sweep(rig: Rig, *tenants: TenantId, limit: int = 100, early: frozenset[str] | None = None) -> list[SweptJob]:
    return await rig.sweeps.sweep(tenants, limit=limit, early=early)


async def rung(rig: Rig, *tenants: TenantId, limit: int = 100, early: frozenset[str] | None = None) -> list[Ring]:
    return sorted(swept.ring for swept in await sweep(rig, *tenants, limit=limit, early=early) if swept.due)


async def scouted(rig: Rig, *, limit: int = 100, early: frozenset[str] | None = None) -> list[TenantId]:
    return await rig.sweeps.tenants_with_due_work(limit=limit, early=early)


def rings(jobs: Sequence[Job]) -> list[Ring]:
    return sorted(map(ring_of, jobs))


class SweepsSuite:
    async def test_the_stores_time_is_that_of_its_transactions(self, rig: Rig) -> None:
        async with rig.database.begin(await rig.tenant()) as tx:
            assert tx.now <= await rig.sweeps.now() <= tx.now + timedelta(minutes=1)

    async def test_an_expired_lease_goes_back_to_the_queue(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        await rig.lease(job, worker="lost")
        await rig.advance(LEASE + SECOND)
        assert await sweep(rig, tenant) == [SweptJob(ring=ring_of(job), kind=KIND, expired=True, due=True)]
        row, (attempt,) = await rig.again(job), await rig.attempts(job)
        assert (row.state, row.claimed_by, row.lease_until, row.finished_at) == (JobState.QUEUED, None, None, None)
        assert (row.attempts, row.expiries, row.failures, row.releases) == (1, 1, 0, 0)
        assert (attempt.attempt, attempt.worker, attempt.outcome) == (1, "lost", AttemptOutcome.EXPIRED)
        assert attempt.error == WORKER_LOST
        assert (await rig.claim(ring_of(job))).outcome is ClaimOutcome.CLAIMED

    async def test_a_lease_that_runs_is_left_alone(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        lease = await rig.lease(job)
        await rig.advance(LEASE - SECOND * 5)
        assert await sweep(rig, tenant) == []
        assert await sweep(rig, tenant, early=EARLY) == []
        assert (await rig.beat(lease)).held

    async def test_a_job_that_lost_three_workers_is_failed(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        for _ in range(2):
            await rig.lease(job)
            await rig.expire(job)
            assert (await rig.again(job)).state is JobState.QUEUED
        await rig.lease(job)
        await rig.advance(LEASE + SECOND)
        assert await sweep(rig, tenant) == [SweptJob(ring=ring_of(job), kind=KIND, expired=True, due=False)]
        row = await rig.again(job)
        assert (row.state, row.error, row.expiries, row.failures) == (JobState.FAILED, WORKER_LOST, 3, 0)
        assert (row.claimed_by, row.lease_until) == (None, None)
        assert row.finished_at is not None
        assert [attempt.outcome for attempt in await rig.attempts(job)] == [AttemptOutcome.EXPIRED] * 3

    async def test_sweepers_at_the_same_time_end_a_lease_once(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        await rig.lease(job)
        await rig.advance(LEASE + SECOND)
        passes = await asyncio.gather(*(sweep(rig, tenant) for _ in range(6)))
        assert [swept.ring for found in passes for swept in found] == [ring_of(job)]
        assert (await rig.again(job)).expiries == 1

    async def test_a_lost_bell_is_rung_again_and_a_fresh_one_is_not(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        assert await sweep(rig, tenant) == []
        await rig.advance(GRACE)
        fresh = await rig.enqueue(tenant)
        assert await sweep(rig, tenant) == [SweptJob(ring=ring_of(job), kind=KIND, expired=False, due=True)]
        await rig.advance(GRACE)
        assert await rung(rig, tenant) == [ring_of(fresh)]

    async def test_a_ring_changes_nothing_about_the_job(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        await rig.advance(GRACE)
        before = await rig.again(job)
        assert await rung(rig, tenant) == [ring_of(job)]
        assert await rig.again(job) == before

    async def test_what_is_not_due_is_not_rung(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        later = await rig.enqueue(tenant, run_in=timedelta(minutes=10))
        await rig.settle(done(await rig.lease(await rig.enqueue(tenant))))
        await rig.settle(fail(await rig.lease(await rig.enqueue(tenant))))
        await rig.cancel(await rig.enqueue(tenant))
        lease = await rig.lease(await rig.enqueue(tenant))
        await rig.advance(SECOND * 30)
        assert await sweep(rig, tenant) == []
        assert await sweep(rig, tenant, early=EARLY) == []
        await rig.settle(done(lease))
        await rig.advance(timedelta(minutes=10))
        assert await rung(rig, tenant) == [ring_of(later)]

    async def test_the_interval_between_rings_doubles(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        await rig.advance(GRACE)
        assert await rung(rig, tenant) == [ring_of(job)]
        for interval in (30, 60, 120, 240):
            await rig.advance(SECOND * (interval - 5))
            assert await sweep(rig, tenant) == []
            # The jitter adds at most a quarter.
            await rig.advance(SECOND * (interval / 4 + 6))
            assert await rung(rig, tenant) == [ring_of(job)]

    async def test_a_job_that_nobody_takes_is_rung_a_few_times_in_ten_minutes(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        count = 0
        for _ in range(60):
            await rig.advance(SECOND * 10)
            count += len(await rung(rig, tenant))
        assert 4 <= count <= 10
        assert (await rig.again(job)).state is JobState.QUEUED

    async def test_a_job_that_waited_for_days_is_still_rung(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        for _ in range(20):
            await rig.advance(timedelta(hours=12))
            assert await rung(rig, tenant) == [ring_of(job)]
        # The longest interval is a quarter of an hour, and a quarter of that by jitter.
        await rig.advance(timedelta(minutes=19))
        assert await rung(rig, tenant) == [ring_of(job)]
        assert (await rig.again(job)).state is JobState.QUEUED

    async def test_a_claim_starts_the_intervals_anew(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        for _ in range(5):
            await rig.advance(timedelta(hours=1))
            assert await rung(rig, tenant) == [ring_of(job)]
        await rig.lease(job)
        await rig.expire(job)
        await rig.advance(SECOND * 31)
        assert await rung(rig, tenant) == [ring_of(job)]

    async def test_jobs_that_died_together_twice_are_tried_apart(self, rig: Rig) -> None:
        """One of them may be what kills its worker, and would take the others along a third time."""
        tenant = await rig.tenant()
        jobs = [await rig.enqueue(tenant) for _ in range(8)]
        delays: dict[Ring, timedelta] = {}
        for _ in range(2):
            for job in jobs:
                await rig.lease(job)
            await rig.advance(LEASE + SECOND)
            delays = {swept.ring: swept.delay for swept in await sweep(rig, tenant) if swept.due}
        ends = {ring_of(job): (await rig.attempts(job))[-1].finished_at for job in jobs}
        waits = {ring_of(job): (await rig.again(job)).run_after - ends[ring_of(job)] for job in jobs}
        assert waits == delays
        assert all(timedelta() <= wait <= APART for wait in waits.values())
        assert max(waits.values()) - min(waits.values()) > SECOND
        await rig.advance(APART + SECOND)
        assert await sweep(rig, tenant) == []

    async def test_an_expired_job_is_rung_by_its_pass_and_not_by_the_next(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        await rig.lease(job)
        await rig.expire(job)
        await rig.advance(SECOND * 25)
        assert await sweep(rig, tenant) == []
        await rig.advance(SECOND * 6)
        assert await rung(rig, tenant) == [ring_of(job)]

    async def test_an_early_pass_rings_any_due_job_of_its_kinds(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        await rig.enqueue(tenant, kind="extract")
        await rig.enqueue(tenant, run_in=timedelta(minutes=1))
        assert await scouted(rig) == []
        assert await scouted(rig, early=frozenset({"other"})) == []
        assert await scouted(rig, early=EARLY) == [tenant]
        assert await rung(rig, tenant, early=EARLY) == [ring_of(job)]

    async def test_an_early_pass_puts_off_the_next_ring_as_well(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        assert await rung(rig, tenant, early=EARLY) == [ring_of(job)]
        await rig.advance(SECOND * 20)
        assert await sweep(rig, tenant) == []
        assert await rung(rig, tenant, early=EARLY) == [ring_of(job)]

    async def test_an_early_pass_ends_expired_leases_of_every_kind(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant, kind="extract")
        await rig.lease(job)
        await rig.advance(LEASE + SECOND)
        assert await scouted(rig, early=EARLY) == [tenant]
        assert await sweep(rig, tenant, early=EARLY) == [
            SweptJob(ring=ring_of(job), kind="extract", expired=True, due=True)
        ]

    async def test_a_pass_tells_jobs_that_wait_for_recognition_from_the_others(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        waiting, plain = await rig.enqueue(acme), await rig.enqueue(bolt)
        assert await rig.settle(put_back(await rig.lease(waiting), recognition=True))
        for recognition, tenant, job in ((True, acme, waiting), (False, bolt, plain)):
            found = await rig.sweeps.tenants_with_due_work(limit=9, early=EARLY, recognition=recognition)
            assert found == [tenant]
            swept = await rig.sweeps.sweep([acme, bolt], limit=9, early=EARLY, recognition=recognition)
            assert [one.ring for one in swept] == [ring_of(job)]
        assert await scouted(rig, early=EARLY) == [acme, bolt]
        await rig.advance(SECOND * 50)
        assert await rung(rig, acme, bolt) == rings([waiting, plain])

    async def test_a_pass_rings_at_most_so_many_jobs_of_each_tenant(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        many = []
        for _ in range(5):
            many.append(await rig.enqueue(acme))
            await rig.advance(SECOND)
        few = [await rig.enqueue(bolt) for _ in range(2)]
        await rig.advance(GRACE)
        # Those that have waited longest come first.
        assert await rung(rig, bolt, acme, acme, limit=3) == rings([*many[:3], *few])
        assert await rung(rig, acme, bolt, limit=3) == rings(many[3:])
        assert await rung(rig, acme, bolt, limit=3) == []

    async def test_a_pass_touches_its_tenants_alone(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        mine, other = await rig.enqueue(acme), await rig.enqueue(bolt)
        await rig.lease(await rig.enqueue(bolt))
        await rig.advance(LEASE + SECOND)
        assert await rung(rig, acme) == [ring_of(mine)]
        assert ring_of(other) in await rung(rig, bolt)

    async def test_unknown_tenants_are_skipped(self, rig: Rig) -> None:
        tenant = await rig.tenant("bolt")
        job = await rig.enqueue(tenant)
        await rig.advance(GRACE)
        assert await rung(rig, TenantId("acme"), tenant, TenantId("cord")) == [ring_of(job)]
        assert await sweep(rig) == []

    @pytest.mark.threat(75)
    async def test_a_suspended_tenant_is_not_rung_for_and_its_expired_leases_end(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        queued, claimed = await rig.enqueue(tenant), await rig.enqueue(tenant)
        await rig.lease(claimed)
        await rig.suspend(tenant)
        await rig.advance(GRACE)
        assert await scouted(rig) == []
        assert await scouted(rig, early=EARLY) == []
        assert await sweep(rig, tenant) == []
        await rig.advance(LEASE)
        assert await scouted(rig) == [tenant]
        assert [(swept.ring, swept.expired) for swept in await sweep(rig, tenant)] == [(ring_of(claimed), True)]
        await rig.resume(tenant)
        assert await rung(rig, tenant) == [ring_of(queued)]

    async def test_the_scout_sees_tenants_with_due_work_alone(self, rig: Rig) -> None:
        names = ("lost-worker", "lost-bell", "ended", "fresh", "later", "nothing", "running", "suspended")
        tenants = {name: await rig.tenant(name) for name in names}
        await rig.lease(await rig.enqueue(tenants["lost-worker"]))
        await rig.enqueue(tenants["lost-bell"])
        await rig.enqueue(tenants["suspended"])
        await rig.suspend(tenants["suspended"])
        await rig.settle(done(await rig.lease(await rig.enqueue(tenants["ended"]))))
        await rig.enqueue(tenants["later"], run_in=timedelta(hours=1))
        await rig.advance(LEASE + SECOND)
        await rig.enqueue(tenants["fresh"])
        await rig.lease(await rig.enqueue(tenants["running"]))
        assert await scouted(rig) == ["lost-bell", "lost-worker"]
        assert await scouted(rig, limit=1) == ["lost-bell"]
        await sweep(rig, *tenants.values())
        assert await scouted(rig) == []

    async def test_the_registry_is_read_in_order_and_page_by_page(self, rig: Rig) -> None:
        for name in ("cord", "acme", "bolt", "a-1"):
            await rig.tenant(name)
        await rig.suspend(TenantId("bolt"))
        assert await rig.sweeps.tenants(after=None, limit=3) == ["a-1", "acme", "bolt"]
        assert await rig.sweeps.tenants(after=TenantId("bolt"), limit=3) == ["cord"]
        assert await rig.sweeps.tenants(after=TenantId("az"), limit=1) == ["bolt"]
        assert await rig.sweeps.tenants(after=TenantId("cord"), limit=3) == []

    async def test_the_backlog_counts_by_kind_over_all_tenants(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        assert await rig.sweeps.backlog() == []
        await rig.enqueue(acme)
        await rig.lease(await rig.enqueue(bolt))
        await rig.advance(LEASE + SECOND)
        await rig.lease(await rig.enqueue(acme))
        await rig.enqueue(bolt)
        await rig.enqueue(bolt, run_in=timedelta(hours=1))
        await rig.enqueue(acme, kind="extract", run_in=timedelta(hours=1))
        await rig.settle(done(await rig.lease(await rig.enqueue(acme, kind="webhook"))))
        figures = {backlog.kind: backlog for backlog in await rig.sweeps.backlog()}
        waited = figures[KIND].oldest_due
        assert LEASE + SECOND <= waited < LEASE * 2
        assert figures == {
            KIND: Backlog(kind=KIND, due=2, scheduled=1, running=1, stuck=1, oldest_due=waited),
            "extract": Backlog(kind="extract", due=0, scheduled=1, running=0, stuck=0, oldest_due=timedelta()),
        }
