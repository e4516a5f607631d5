"""What a job's end is told to: the deliveries that the transaction inserts which ends it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.domain.ids import TenantId
from app.domain.jobs import MAX_EXPIRIES, Job, JobState
from app.domain.webhooks import KIND as WEBHOOK
from app.domain.webhooks import TRIES, Event, event_data
from tests.conformance.caps_suite import capped
from tests.support.rig import LEASE, SECOND, Rig, done, fail, new_delivery, release, retry, ring_of, snooze


async def deliveries(rig: Rig, tenant: TenantId) -> list[Job]:
    """Oldest first."""
    async with rig.database.begin(tenant) as tx:
        return (await tx.jobs.newest(kind=WEBHOOK))[::-1]


async def events(rig: Rig, tenant: TenantId) -> list[object]:
    return [job.payload["event"] for job in await deliveries(rig, tenant)]


async def finish(rig: Rig, job: Job) -> None:
    assert await rig.settle(done(await rig.lease(job)))


async def give_up(rig: Rig, job: Job) -> None:
    assert await rig.settle(fail(await rig.lease(job)))


async def cancel_at_once(rig: Rig, job: Job) -> None:
    await rig.cancel(job)


async def cancel_while_it_runs(rig: Rig, job: Job) -> None:
    lease = await rig.lease(job)
    await rig.cancel(job)
    await rig.cancel(job)
    assert await rig.settle(fail(lease))
    await rig.cancel(job)


async def lose_the_worker_of_a_cancelled(rig: Rig, job: Job) -> None:
    await rig.lease(job)
    await rig.cancel(job)
    await rig.expire(job)


async def lose_every_worker(rig: Rig, job: Job) -> None:
    for _ in range(MAX_EXPIRIES):
        await rig.lease(job)
        await rig.expire(job)


ENDS: dict[Callable[[Rig, Job], Awaitable[None]], JobState] = {
    finish: JobState.DONE,
    give_up: JobState.FAILED,
    cancel_at_once: JobState.CANCELLED,
    cancel_while_it_runs: JobState.CANCELLED,
    lose_the_worker_of_a_cancelled: JobState.CANCELLED,
    lose_every_worker: JobState.FAILED,
}


class AnnouncementsSuite:
    @pytest.mark.parametrize("end", ENDS)
    async def test_an_end_is_told_once_with_the_job_as_it_ended(
        self, rig: Rig, end: Callable[[Rig, Job], Awaitable[None]]
    ) -> None:
        tenant = await rig.tenant()
        webhook, document = await rig.webhook(tenant), await rig.document(tenant)
        job = await rig.enqueue(tenant, document_id=document.id, traceparent="00-trace")
        await end(rig, job)
        ended = await rig.again(job)
        assert ended.state is ENDS[end]
        (made,) = await deliveries(rig, tenant)
        assert made.payload == {
            "webhook_id": str(webhook.id),
            "event": f"job.{ended.state}",
            "job_id": str(job.id),
            "data": event_data(ended),
        }
        assert (made.state, made.document_id, made.dedup_key) == (JobState.QUEUED, None, None)
        assert (made.max_attempts, made.traceparent) == (TRIES, "00-trace")
        assert made.run_after == ended.finished_at

    @pytest.mark.parametrize("go_on", [retry, snooze, release])
    async def test_what_is_queued_again_is_told_to_nobody(self, rig: Rig, go_on: Any) -> None:
        tenant = await rig.tenant()
        await rig.webhook(tenant)
        job = await rig.enqueue(tenant)
        assert await rig.settle(go_on(await rig.lease(job)))
        await rig.advance(SECOND * 2)
        await rig.lease(job)
        await rig.expire(job)
        assert await deliveries(rig, tenant) == []

    async def test_a_webhook_is_told_what_it_asks_for_while_it_is_enabled(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        failures = await rig.webhook(tenant, events=frozenset({Event.JOB_FAILED}))
        off = await rig.webhook(tenant)
        async with rig.database.begin(tenant) as tx:
            assert await tx.webhooks.disable(off.id, reason="a test")
        await finish(rig, await rig.enqueue(tenant))
        assert await deliveries(rig, tenant) == []
        await give_up(rig, await rig.enqueue(tenant))
        (made,) = await deliveries(rig, tenant)
        assert made.payload["webhook_id"] == str(failures.id)

    @pytest.mark.threat(64)
    async def test_an_end_is_told_to_no_webhook_of_another_tenant(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        mine, theirs = await rig.webhook(acme), await rig.webhook(bolt)
        jobs = [await rig.enqueue(tenant) for tenant in (acme, bolt, acme)]
        settled = await rig.leases.settle([done(await rig.lease(job)) for job in jobs])
        for tenant, webhook, count in ((acme, mine, 2), (bolt, theirs, 1)):
            made = await deliveries(rig, tenant)
            assert [job.payload["webhook_id"] for job in made] == [str(webhook.id)] * count
        # Each is told of its own, in the order in which they were given.
        for job, answer in zip(jobs, settled, strict=True):
            assert answer is not None
            ((kind, bell),) = answer.bells
            assert (kind, bell.tenant_id) == (WEBHOOK, job.tenant_id)
            async with rig.database.begin(bell.tenant_id) as tx:
                made_for = await tx.jobs.get(bell.job_id)
            assert made_for is not None
            assert made_for.payload["job_id"] == str(job.id)

    async def test_a_delivery_and_a_selftest_are_told_to_nobody(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        webhook = await rig.webhook(tenant)
        job = await rig.enqueue(tenant, kind="selftest")
        await finish(rig, job)
        async with rig.database.begin(tenant) as tx:
            sent = await tx.jobs.add(new_delivery(webhook.id, event="webhook.test", data={}))
        assert sent is not None
        await give_up(rig, sent)
        assert [made.id for made in await deliveries(rig, tenant)] == [sent.id]

    async def test_who_has_lost_the_lease_tells_nobody(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await rig.webhook(tenant)
        job = await rig.enqueue(tenant)
        lease = await rig.lease(job)
        assert await rig.settle(done(lease))
        assert not await rig.settle(fail(lease))
        assert await events(rig, tenant) == ["job.done"]

    async def test_what_is_rolled_back_is_told_to_nobody(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await rig.webhook(tenant)
        lease = await rig.lease(await rig.enqueue(tenant))

        class BoomError(Exception):
            pass

        async def settle_and_fail() -> None:
            async with rig.database.begin(tenant) as tx:
                settled = await tx.jobs.settle(done(lease))
                assert settled is not None
                assert len(settled.bells) == 1
                raise BoomError

        with pytest.raises(BoomError):
            await settle_and_fail()
        assert await deliveries(rig, tenant) == []

    async def test_a_sweep_hands_out_the_bells_of_what_it_tells(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await rig.webhook(tenant)
        job = await rig.enqueue(tenant)
        await rig.lease(job)
        await rig.cancel(job)
        await rig.advance(LEASE + SECOND)
        swept = await rig.sweeps.sweep([tenant], limit=100, early=frozenset({WEBHOOK}))
        (made,) = await deliveries(rig, tenant)
        assert [(found.ring, found.kind, found.expired, found.due) for found in swept] == [
            (ring_of(job), job.kind, True, False),
            (ring_of(made), WEBHOOK, False, True),
        ]

    async def test_a_cancel_hands_out_the_bells_of_what_it_tells_once(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await rig.webhook(tenant)
        job = await rig.enqueue(tenant)
        answers = []
        for _ in range(2):
            async with rig.database.begin(tenant) as tx:
                answers.append(await tx.jobs.cancel(job.id))
        (made,) = await deliveries(rig, tenant)
        assert [answer and answer[1] for answer in answers] == [[(WEBHOOK, ring_of(made))], []]

    async def test_deliveries_are_no_work_of_the_tenants_own(self, rig: Rig) -> None:
        tenant = await capped(rig, 1)
        await rig.webhook(tenant)
        await finish(rig, await rig.enqueue(tenant))
        (made,) = await deliveries(rig, tenant)
        lease = await rig.lease(await rig.enqueue(tenant))
        waiting = await rig.enqueue(tenant)
        # The cap is reached: of what waits, the delivery alone is rung for, and it runs.
        await rig.advance(SECOND * 10)
        swept = await rig.sweeps.sweep([tenant], limit=100)
        assert [found.ring for found in swept] == [ring_of(made)]
        assert not (await rig.claimed(made)).capped
        async with rig.database.begin(tenant) as tx:
            assert await tx.jobs.live(at_most=10) == 2
        # And while it runs, it takes nobody's place.
        assert await rig.settle(done(lease))
        assert (await rig.claim(ring_of(waiting))).job is not None
