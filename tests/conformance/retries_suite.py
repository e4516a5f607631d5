"""`Jobs.retry`: an ended job queued again as the same job; and `Jobs.prune`, the end of those that have no document."""

from datetime import timedelta
from typing import Any

import pytest

from app.domain.errors import Conflict
from app.domain.ids import JobId, uuid7
from app.domain.jobs import Job, JobFilter, JobState
from tests.support.rig import LEASE, SECOND, Rig, done, fail, new_answer, new_page, ring_of

ENDED = (JobState.FAILED, JobState.CANCELLED)
DAY = timedelta(days=1)


async def retried(rig: Rig, job: Job, *, states: tuple[JobState, ...] = ENDED) -> Job | None:
    async with rig.database.begin(job.tenant_id) as tx:
        return await tx.jobs.retry(job.id, states=states)


async def pruned(rig: Rig, job: Job, *, limit: int = 100, ago: timedelta = DAY, dry_run: bool = False) -> int:
    async with rig.database.begin(job.tenant_id) as tx:
        return await tx.jobs.prune(older_than=ago, limit=limit, dry_run=dry_run)


async def is_there(rig: Rig, job: Job) -> bool:
    async with rig.database.begin(job.tenant_id) as tx:
        return await tx.jobs.get(job.id) is not None


async def failed(rig: Rig, **fields: object) -> Job:
    """After an expiry and a failure, with a draft and an answer."""
    tenant = await rig.tenant()
    document = await rig.document(tenant)
    job = await rig.enqueue(tenant, document_id=document.id, **fields)
    await rig.lease(job)
    await rig.expire(job)
    lease = await rig.lease(job)
    async with rig.database.begin(tenant) as tx:
        assert await tx.pages.draft(lease, [new_page()])
        assert await tx.answers.keep(lease, new_answer())
    assert await rig.settle(fail(lease))
    return await rig.again(job)


class RetriesSuite:
    async def test_a_failed_job_is_queued_again_as_the_same_job_and_its_attempts_go_on(self, rig: Rig) -> None:
        job = await failed(rig)
        assert (job.failures, job.expiries, job.attempts) == (1, 1, 2)
        again = await retried(rig, job)
        assert again is not None
        assert again == await rig.again(job)
        assert (again.id, again.state, again.attempts) == (job.id, JobState.QUEUED, 2)
        assert (again.failures, again.expiries, again.error, again.finished_at) == (0, 0, None, None)
        assert (again.payload, again.dedup_key, again.created_at) == (job.payload, job.dedup_key, job.created_at)
        assert (await rig.lease(again)).attempt == 3
        assert len(await rig.attempts(job)) == 2

    async def test_a_retried_job_has_its_whole_time_again(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        lease = await rig.lease(job)
        await rig.advance(LEASE / 2)
        assert await rig.settle(fail(lease))
        assert (await rig.again(job)).worked >= LEASE / 2
        assert await retried(rig, job)
        assert not (await rig.again(job)).worked

    async def test_jobs_match_by_state_kind_code_and_age_in_the_order_of_their_ids(self, rig: Rig) -> None:
        job = await failed(rig)
        assert job.error is not None
        await rig.advance(DAY)
        other = await rig.enqueue(job.tenant_id, kind="summarize")
        assert await rig.settle(fail(await rig.lease(other)))
        queued = await rig.enqueue(job.tenant_id)

        async def matching(*, after: JobId | None = None, limit: int = 10, **fields: Any) -> list[JobId]:
            wanted = JobFilter(**{"states": frozenset({JobState.FAILED}), **fields})
            async with rig.database.begin(job.tenant_id) as tx:
                return await tx.jobs.matching(wanted, after=after, limit=limit)

        both = sorted([job.id, other.id])
        assert await matching() == both
        assert await matching(limit=1) == both[:1]
        assert await matching(after=both[0]) == both[1:]
        assert await matching(states=frozenset({JobState.QUEUED, JobState.CLAIMED})) == [queued.id]
        assert await matching(kinds=frozenset({"summarize"})) == [other.id]
        assert await matching(codes=frozenset({job.error.code})) == both
        assert await matching(codes=frozenset({"llm_not_configured"})) == []
        assert await matching(since=timedelta(hours=1)) == [other.id]
        assert await matching(until=timedelta(hours=1)) == [job.id]

    async def test_a_page_that_was_drafted_is_kept_and_an_answer_is_not(self, rig: Rig) -> None:
        job = await failed(rig)
        assert await retried(rig, job)
        async with rig.database.begin(job.tenant_id) as tx:
            assert await tx.pages.drafted(job.id) == {1}
            assert await tx.answers.kept(job.id) == []

    async def test_a_cancelled_job_that_is_retried_is_cancelled_no_more(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        lease = await rig.lease(job)
        await rig.cancel(job)
        assert await rig.settle(fail(lease))
        assert await retried(rig, job)
        assert await rig.settle(done(await rig.lease(job)))
        assert (await rig.again(job)).state is JobState.DONE

    async def test_the_worker_of_before_has_lost_its_lease(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        old = await rig.lease(job)
        assert await rig.settle(fail(old))
        assert await retried(rig, job)
        await rig.lease(job)
        assert not await rig.settle(done(old))
        assert not (await rig.beat(old)).held

    async def test_a_job_in_another_state_is_left_as_it_is(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        assert await retried(rig, job) is None
        lease = await rig.lease(job)
        assert await retried(rig, job) is None
        assert await rig.settle(done(lease))
        before = await rig.again(job)
        assert await retried(rig, job) is None
        assert await rig.again(job) == before

    async def test_a_result_of_before_makes_room_for_that_of_the_next_attempt(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        for result in ({"status": 200}, None, {"status": 204}):
            lease = await rig.lease(job)
            async with rig.database.begin(tenant) as tx:
                assert await tx.jobs.settle(done(lease))
                await tx.jobs.save_result(job.id, result)
            again = await retried(rig, job, states=(JobState.DONE,))
            assert again is not None
            assert again.result is None
            assert (await rig.again(job)).result is None

    async def test_while_an_equal_job_is_live_it_is_refused(self, rig: Rig) -> None:
        job = await failed(rig, dedup_key="same")
        equal = await rig.enqueue(job.tenant_id, dedup_key="same")
        with pytest.raises(Conflict):
            await retried(rig, job)
        assert await rig.again(job) == job
        assert await rig.settle(done(await rig.lease(equal)))
        assert await retried(rig, job)

    async def test_a_retried_job_whose_bell_is_lost_is_rung_for_again(self, rig: Rig) -> None:
        job = await failed(rig)
        assert await retried(rig, job)
        await rig.advance(SECOND * 6)
        assert [found.ring for found in await rig.sweeps.sweep([job.tenant_id], limit=10)] == [ring_of(job)]

    async def test_jobs_without_a_document_that_ended_long_ago_are_pruned(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        of_document, old, waiting = (
            await rig.enqueue(tenant, document_id=document.id),
            await rig.enqueue(tenant),
            await rig.enqueue(tenant),
        )
        for job in (of_document, old):
            assert await rig.settle(done(await rig.lease(job)))
        await rig.advance(DAY + LEASE)
        recent = await rig.enqueue(tenant)
        await rig.cancel(recent)
        assert await pruned(rig, old, ago=LEASE / 2, dry_run=True) == 1
        assert await is_there(rig, old)
        assert await pruned(rig, old, ago=LEASE / 2) == 1
        there = [await is_there(rig, job) for job in (of_document, old, waiting, recent)]
        assert there == [True, False, True, True]
        assert await rig.attempts(old) == []

    async def test_no_more_are_pruned_than_asked_for(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        jobs = [await rig.enqueue(tenant, id=JobId(uuid7())) for _ in range(5)]
        for job in jobs:
            await rig.cancel(job)
        await rig.advance(LEASE)
        assert [await pruned(rig, jobs[0], limit=3, ago=LEASE / 2) for _ in range(3)] == [3, 2, 0]
