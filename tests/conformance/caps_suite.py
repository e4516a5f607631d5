"""A tenant's running jobs have a cap: exact with many claiming at once, freed by every way that a job can end."""

import asyncio
from collections import Counter

import pytest

from app.domain.ids import TenantId
from app.domain.jobs import Job
from app.domain.leases import ClaimOutcome, Lease
from app.domain.tenants import Limits
from tests.support.rig import KIND, LEASE, SECOND, Rig, done, fail, put_back, release, retry, ring_of, snooze

EARLY = frozenset({KIND})


async def capped(rig: Rig, cap: int, name: str = "acme") -> TenantId:
    tenant = await rig.tenant(name)
    async with rig.database.begin(tenant) as tx:
        assert await tx.tenant.set_limits(Limits(max_running=cap))
    return tenant


async def outcomes(rig: Rig, jobs: list[Job]) -> Counter[ClaimOutcome]:
    claims = await rig.leases.claim([ring_of(job) for job in jobs], worker="w", lease=LEASE, kinds=EARLY)
    return Counter(claim.outcome for claim in claims)


class CapsSuite:
    async def test_limits_are_kept_and_taken_back(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        limits = Limits(max_running=3, max_queued=5, max_upload_bytes=1 << 40, requests_per_minute=60)
        for wanted in (limits, Limits()):
            async with rig.database.begin(tenant) as tx:
                assert await tx.tenant.set_limits(wanted)
            async with rig.database.begin(tenant) as tx:
                found = await tx.tenant.get()
            assert found is not None
            assert found.limits == wanted
        async with rig.database.begin(TenantId("nobody")) as tx:
            assert not await tx.tenant.set_limits(limits)

    async def test_no_more_are_claimed_than_the_tenant_may_run(self, rig: Rig) -> None:
        tenant = await capped(rig, 2)
        jobs = [await rig.enqueue(tenant) for _ in range(5)]
        assert await outcomes(rig, jobs) == {ClaimOutcome.CLAIMED: 2, ClaimOutcome.CAPPED: 3}
        assert await outcomes(rig, jobs) == {ClaimOutcome.TAKEN: 2, ClaimOutcome.CAPPED: 3}

    async def test_a_job_that_waits_for_its_tenants_cap_does_not_wait_for_recognition(self, rig: Rig) -> None:
        tenant = await capped(rig, 1)
        jobs = [await rig.enqueue(tenant) for _ in range(2)]
        for job in jobs:
            assert await rig.settle(put_back(await rig.lease(job), recognition=True))
        claims = await rig.leases.claim(
            [ring_of(job) for job in jobs], worker="w", lease=LEASE, kinds=EARLY, recognition=2
        )
        assert Counter(claim.outcome for claim in claims) == {ClaimOutcome.CLAIMED: 1, ClaimOutcome.CAPPED: 1}

    async def test_the_oldest_of_a_batch_are_claimed(self, rig: Rig) -> None:
        tenant = await capped(rig, 2)
        jobs = [await rig.enqueue(tenant) for _ in range(4)]
        claims = await rig.leases.claim([ring_of(job) for job in reversed(jobs)], worker="w", lease=LEASE, kinds=EARLY)
        assert {claim.ring for claim in claims if claim.job} == {ring_of(job) for job in jobs[:2]}

    async def test_a_job_that_is_left_out_stays_as_it_was(self, rig: Rig) -> None:
        tenant = await capped(rig, 1)
        running, waiting = await rig.enqueue(tenant), await rig.enqueue(tenant)
        await rig.lease(running)
        before = await rig.again(waiting)
        assert await outcomes(rig, [waiting]) == {ClaimOutcome.CAPPED: 1}
        assert await rig.again(waiting) == before

    @pytest.mark.threat(67)
    async def test_the_cap_is_the_tenants_own(self, rig: Rig) -> None:
        tenant, other = await capped(rig, 1), await rig.tenant("other")
        await rig.lease(await rig.enqueue(tenant))
        assert await outcomes(rig, [await rig.enqueue(tenant), await rig.enqueue(other)]) == {
            ClaimOutcome.CAPPED: 1,
            ClaimOutcome.CLAIMED: 1,
        }

    async def test_a_claimed_job_says_whether_its_tenant_has_a_cap(self, rig: Rig) -> None:
        tenant, other = await capped(rig, 1), await rig.tenant("other")
        assert (await rig.claimed(await rig.enqueue(tenant))).capped
        assert not (await rig.claimed(await rig.enqueue(other))).capped

    @pytest.mark.threat(67)
    async def test_twenty_claims_at_once_do_not_exceed_it(self, rig: Rig) -> None:
        tenant = await capped(rig, 2)
        jobs = [await rig.enqueue(tenant) for _ in range(20)]
        found = sum(await asyncio.gather(*(outcomes(rig, [job]) for job in jobs)), Counter[ClaimOutcome]())
        assert found == {ClaimOutcome.CLAIMED: 2, ClaimOutcome.CAPPED: 18}

    async def test_every_end_of_a_job_frees_its_place(self, rig: Rig) -> None:
        tenant = await capped(rig, 1)
        later = SECOND * 3600

        async def ends(lease: Lease) -> None:
            for end in (done, fail, release):
                assert await rig.settle(end(lease))
                lease = await rig.lease(await rig.enqueue(tenant))
            for delayed in (retry, snooze):
                assert await rig.settle(delayed(lease, delay=later))
                lease = await rig.lease(await rig.enqueue(tenant))

        await ends(await rig.lease(await rig.enqueue(tenant)))
        assert await outcomes(rig, [await rig.enqueue(tenant)]) == {ClaimOutcome.CAPPED: 1}

    async def test_a_lease_that_ran_out_holds_no_place_even_before_it_is_swept(self, rig: Rig) -> None:
        tenant = await capped(rig, 1)
        await rig.lease(await rig.enqueue(tenant))
        await rig.advance(LEASE + SECOND)
        assert await outcomes(rig, [await rig.enqueue(tenant)]) == {ClaimOutcome.CLAIMED: 1}

    async def test_a_running_job_whose_document_is_deleted_frees_its_place(self, rig: Rig) -> None:
        tenant = await capped(rig, 1)
        document = await rig.document(tenant)
        await rig.lease(await rig.enqueue(tenant, document_id=document.id))
        assert await rig.remove(document)
        assert await outcomes(rig, [await rig.enqueue(tenant)]) == {ClaimOutcome.CLAIMED: 1}

    async def test_a_sweep_rings_for_no_more_than_have_room(self, rig: Rig) -> None:
        tenant = await capped(rig, 3)
        await rig.lease(await rig.enqueue(tenant))
        for _ in range(6):
            await rig.enqueue(tenant)
        await rig.advance(SECOND * 10)
        assert len(await rig.sweeps.sweep([tenant], limit=100)) == 2
        assert len(await rig.sweeps.sweep([tenant], limit=1, early=EARLY)) == 1

    async def test_a_full_tenant_waits_for_no_slot_of_others(self, rig: Rig) -> None:
        tenant = await capped(rig, 1)
        running = await rig.lease(await rig.enqueue(tenant))
        await rig.enqueue(tenant)
        assert await rig.sweeps.tenants_with_due_work(limit=9, early=EARLY) == []
        assert await rig.settle(done(running))
        assert await rig.sweeps.tenants_with_due_work(limit=9, early=EARLY) == [tenant]

    async def test_a_full_tenant_is_not_rung_for(self, rig: Rig) -> None:
        tenant = await capped(rig, 1)
        running = await rig.lease(await rig.enqueue(tenant))
        waiting = await rig.enqueue(tenant)
        await rig.advance(SECOND * 10)
        assert await rig.sweeps.sweep([tenant], limit=100) == []
        assert await rig.settle(done(running))
        assert [found.ring for found in await rig.sweeps.sweep([tenant], limit=1, early=EARLY)] == [ring_of(waiting)]

    async def test_lowering_the_cap_stops_nothing_and_admits_nothing(self, rig: Rig) -> None:
        tenant = await capped(rig, 3)
        leases = [await rig.lease(await rig.enqueue(tenant)) for _ in range(3)]
        async with rig.database.begin(tenant) as tx:
            assert await tx.tenant.set_limits(Limits(max_running=1))
        waiting = await rig.enqueue(tenant)
        for lease in leases:
            assert await outcomes(rig, [waiting]) == {ClaimOutcome.CAPPED: 1}
            assert (await rig.beat(lease)).held
            assert await rig.settle(done(lease))
        assert await outcomes(rig, [waiting]) == {ClaimOutcome.CLAIMED: 1}
