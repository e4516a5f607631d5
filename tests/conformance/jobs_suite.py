"""`Jobs`: enqueueing, deduplication, cancelling, and the end of an attempt together with its results."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from app.domain.doorbells import NEED_TEXT
from app.domain.errors import Conflict, NotFound
from app.domain.ids import DocumentId, JobId, TenantId, uuid7
from app.domain.jobs import CANCELLED, AttemptOutcome, Job, JobState, NewJob
from app.domain.leases import ClaimOutcome
from tests.support.rig import KIND, SECOND, Rig, done, fail, new_job, new_page, retry, ring_of, snooze


class Boom(Exception):
    """What goes wrong while results are written."""


async def added(rig: Rig, tenant: TenantId, job: NewJob) -> Job | None:
    async with rig.database.begin(tenant) as tx:
        return await tx.jobs.add(job)


async def listed(rig: Rig, tenant: TenantId, **filters: Any) -> list[JobId]:
    async with rig.database.begin(tenant) as tx:
        return [job.id for job in await tx.jobs.newest(**filters)]


class JobsSuite:
    async def test_a_new_job_is_queued_and_nothing_is_counted(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        new = new_job(
            document_id=document.id,
            payload={"pages": [1, {"to": None}], "text": "ü"},
            dedup_key="key",
            priority=3,
            max_attempts=7,
            run_in=timedelta(minutes=5),
            traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        )
        job = await added(rig, tenant, new)
        assert job is not None
        assert (job.id, job.tenant_id, job.kind, job.document_id) == (new.id, tenant, KIND, document.id)
        assert (job.payload, job.dedup_key, job.priority) == (new.payload, "key", 3)
        assert (job.max_attempts, job.traceparent) == (7, new.traceparent)
        assert job.state is JobState.QUEUED
        assert (job.attempts, job.failures, job.expiries, job.releases) == (0, 0, 0, 0)
        assert (job.cancel_requested, job.progress, job.error, job.result) == (False, None, None, None)
        assert (job.claimed_by, job.lease_until, job.started_at, job.finished_at) == (None, None, None, None)
        assert job.run_after - job.created_at == timedelta(minutes=5)
        assert await rig.again(job) == job
        assert await rig.attempts(job) == []

    async def test_jobs_of_documents_are_so_many_of_each_and_live_ones_before_ended_ones(self, rig: Rig) -> None:
        tenant, other = await rig.tenant(), await rig.tenant("other")
        document, second = await rig.document(tenant), await rig.document(tenant)
        await rig.enqueue(other)
        live = await added(rig, tenant, new_job(document_id=document.id, kind="summarize", dedup_key="live"))
        ended = []
        for _ in range(3):
            async with rig.database.begin(tenant) as tx:
                job = await tx.jobs.add(new_job(document_id=document.id, dedup_key="ended"))
                assert job is not None
                await tx.jobs.cancel(job.id)
                ended.append(job)
        alone = await added(rig, tenant, new_job(document_id=second.id))
        assert live is not None
        assert alone is not None
        async with rig.database.begin(tenant) as tx:
            found = await tx.jobs.of_documents([document.id, second.id], each=2)
            assert [job.id for job in found] == [alone.id, ended[-1].id, live.id]
            of_kind = await tx.jobs.of_documents([document.id], each=2, kind=KIND)
            assert [job.id for job in of_kind] == [ended[2].id, ended[1].id]
            assert await tx.jobs.of_documents([], each=2) == []
            assert await tx.jobs.live_equal(kind="summarize", dedup_key="live") == live
            assert await tx.jobs.live_equal(kind=KIND, dedup_key="live") is None
            assert await tx.jobs.live_equal(kind=KIND, dedup_key="ended") is None

    async def test_live_jobs_are_those_queued_or_claimed_counted_no_further_than_asked(self, rig: Rig) -> None:
        tenant, other = await rig.tenant(), await rig.tenant("other")
        await rig.enqueue(other)
        for end in (done, fail, retry):
            assert await rig.settle(end(await rig.lease(await rig.enqueue(tenant))))
        await rig.cancel(await rig.enqueue(tenant))
        await rig.lease(await rig.enqueue(tenant))
        await rig.enqueue(tenant, kind="brew", run_in=timedelta(days=1))
        async with rig.database.begin(tenant) as tx:
            assert [await tx.jobs.live(at_most=most) for most in (0, 1, 2, 3, 4, 1_000)] == [0, 1, 2, 3, 3, 3]
            await tx.jobs.add(new_job())
            assert await tx.jobs.live(at_most=10) == 4

    async def test_an_unknown_job_is_none(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        async with rig.database.begin(tenant) as tx:
            assert await tx.jobs.get(JobId(uuid7())) is None
            assert await tx.jobs.cancel(JobId(uuid7())) is None
            assert await tx.jobs.attempts(JobId(uuid7())) == []

    async def test_a_job_of_an_unknown_document_is_refused(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        with pytest.raises(NotFound):
            await added(rig, tenant, new_job(document_id=DocumentId(uuid7())))

    async def test_what_a_caller_does_to_a_payload_changes_nothing_stored(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        payload: dict[str, Any] = {"pages": [1]}
        job = await rig.enqueue(tenant, payload=payload)
        payload["pages"].append(2)
        (await rig.claimed(job)).payload["pages"].append(3)  # type: ignore[attr-defined]
        assert (await rig.again(job)).payload == {"pages": [1]}

    async def test_a_payload_that_no_store_can_hold_is_scrubbed(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant, payload={"a\0": ["b\ud800", {"c": "\0d"}]})
        assert job.payload == {"a": ["b", {"c": "d"}]}
        assert (await rig.claimed(job)).payload == job.payload

    async def test_an_equal_job_is_refused_while_one_is_queued_or_claimed(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant, dedup_key="same")
        assert await added(rig, tenant, new_job(dedup_key="same")) is None
        await rig.lease(job)
        assert await added(rig, tenant, new_job(dedup_key="same")) is None
        assert await listed(rig, tenant) == [job.id]

    async def test_other_kinds_other_keys_and_no_key_are_no_duplicates(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await rig.enqueue(tenant, dedup_key="same")
        await rig.enqueue(tenant, dedup_key="same", kind="extract")
        await rig.enqueue(tenant, dedup_key="other")
        await rig.enqueue(tenant)
        await rig.enqueue(tenant)
        assert len(await listed(rig, tenant)) == 5

    @pytest.mark.threat(10)
    async def test_an_equal_job_of_another_tenant_is_no_duplicate(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        await rig.enqueue(acme, dedup_key="same")
        assert await added(rig, bolt, new_job(dedup_key="same")) is not None

    @pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
    async def test_an_ended_job_frees_its_key(self, rig: Rig, end: str) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant, dedup_key="same")
        if end == "cancelled":
            await rig.cancel(job)
        else:
            lease = await rig.lease(job)
            assert await rig.settle(done(lease) if end == "done" else fail(lease))
        assert (await rig.again(job)).state == end
        assert await added(rig, tenant, new_job(dedup_key="same")) is not None

    @pytest.mark.threat(13)
    async def test_of_equal_jobs_added_at_the_same_time_one_is_inserted(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        answers = await asyncio.gather(*(added(rig, tenant, new_job(dedup_key="same")) for _ in range(8)))
        assert len([job for job in answers if job is not None]) == 1

    async def test_jobs_are_listed_newest_first_and_page_by_page(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        ids = sorted(JobId(uuid7()) for _ in range(5))
        for job_id in ids:
            await rig.enqueue(tenant, id=job_id)
        newest = ids[::-1]
        assert await listed(rig, tenant) == newest
        assert await listed(rig, tenant, limit=2) == newest[:2]
        assert await listed(rig, tenant, limit=2, before=newest[1]) == newest[2:4]
        assert await listed(rig, tenant, limit=2, before=newest[3]) == newest[4:]

    async def test_jobs_are_listed_by_document_state_and_kind(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        first, second = await rig.document(tenant), await rig.document(tenant)
        running = await rig.enqueue(tenant, document_id=first.id)
        await rig.lease(running)
        extract = await rig.enqueue(tenant, document_id=second.id, kind="extract")
        bare = await rig.enqueue(tenant)
        assert set(await listed(rig, tenant, document_ids=[first.id, second.id])) == {running.id, extract.id}
        assert await listed(rig, tenant, document_ids=[first.id]) == [running.id]
        assert await listed(rig, tenant, document_ids=[]) == []
        assert await listed(rig, tenant, state=JobState.CLAIMED) == [running.id]
        assert await listed(rig, tenant, kind="extract") == [extract.id]
        assert await listed(rig, tenant, kind=KIND, state=JobState.QUEUED) == [bare.id]

    async def test_cancelling_a_queued_job_ends_it(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        cancelled = await rig.cancel(job)
        assert cancelled is not None
        assert (cancelled.state, cancelled.error) == (JobState.CANCELLED, CANCELLED)
        assert cancelled.finished_at is not None
        assert await rig.again(job) == cancelled
        assert (await rig.claim(ring_of(job))).outcome is ClaimOutcome.CANCELLED

    async def test_cancelling_a_claimed_job_flags_it(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        lease = await rig.lease(job)
        flagged = await rig.cancel(job)
        assert flagged is not None
        assert (flagged.state, flagged.cancel_requested) == (JobState.CLAIMED, True)
        assert (flagged.error, flagged.finished_at) == (None, None)
        beat = await rig.beat(lease)
        assert (beat.held, beat.cancel_requested) == (True, True)

    async def test_cancelling_an_ended_job_changes_nothing(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        succeeded, failed, cancelled = [await rig.enqueue(tenant) for _ in range(3)]
        await rig.settle(done(await rig.lease(succeeded)))
        await rig.settle(fail(await rig.lease(failed)))
        await rig.cancel(cancelled)
        for job in (succeeded, failed, cancelled):
            before = await rig.again(job)
            assert await rig.cancel(job) == before
            assert await rig.again(job) == before

    @pytest.mark.parametrize("settlement", [retry, snooze, fail])
    async def test_a_cancel_outlives_the_attempt(self, rig: Rig, settlement: Any) -> None:
        job = await rig.enqueue(await rig.tenant())
        lease = await rig.lease(job)
        await rig.cancel(job)
        assert await rig.settle(settlement(lease))
        ended = await rig.again(job)
        assert (ended.state, ended.error) == (JobState.CANCELLED, CANCELLED)
        assert ended.finished_at is not None
        assert [attempt.outcome for attempt in await rig.attempts(job)] == [AttemptOutcome.CANCELLED]

    async def test_a_job_that_was_done_before_the_cancel_was_seen_stays_done(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        lease = await rig.lease(job)
        await rig.cancel(job)
        assert await rig.settle(done(lease))
        ended = await rig.again(job)
        assert (ended.state, ended.error) == (JobState.DONE, None)

    async def test_a_cancel_outlives_an_expired_lease(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        await rig.lease(job)
        await rig.cancel(job)
        await rig.expire(job)
        ended = await rig.again(job)
        assert (ended.state, ended.error, ended.expiries) == (JobState.CANCELLED, CANCELLED, 1)
        assert ended.finished_at is not None

    async def test_results_and_done_are_committed_together(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        job = await rig.enqueue(tenant, document_id=document.id)
        lease = await rig.lease(job)
        async with rig.database.begin(tenant) as tx:
            assert await tx.jobs.settle(done(lease))
            await tx.pages.replace(document.id, [new_page()])
            assert await tx.documents.set_read(document.id, page_count=1)
        assert (await rig.again(job)).state is JobState.DONE
        assert len(await rig.pages(document)) == 1
        assert [attempt.outcome for attempt in await rig.attempts(job)] == [AttemptOutcome.DONE]

    async def test_a_failure_while_results_are_written_rolls_back_done_as_well(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        job = await rig.enqueue(tenant, document_id=document.id)
        lease = await rig.lease(job)
        before = await rig.again(job)

        async def apply() -> None:
            async with rig.database.begin(tenant) as tx:
                assert await tx.jobs.settle(done(lease))
                await tx.pages.replace(document.id, [new_page()])
                raise Boom

        with pytest.raises(Boom):
            await apply()
        assert await rig.again(job) == before
        assert await rig.pages(document) == []
        assert await rig.attempts(job) == []
        assert await rig.settle(retry(lease))

    @pytest.mark.threat(79)
    async def test_a_late_worker_writes_no_results(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        job = await rig.enqueue(tenant, document_id=document.id)
        late = await rig.lease(job)
        await rig.expire(job)
        await rig.lease(job)
        before = await rig.again(job)
        async with rig.database.begin(tenant) as tx:
            if await tx.jobs.settle(done(late)):
                await tx.pages.replace(document.id, [new_page()])
        assert await rig.pages(document) == []
        assert await rig.again(job) == before

    async def test_a_settle_in_a_transaction_follows_the_same_rule(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        lease = await rig.lease(job)
        async with rig.database.begin(tenant) as tx:
            assert await tx.jobs.settle(retry(lease, delay=SECOND * 90))
            assert not await tx.jobs.settle(retry(lease))
        queued = await rig.again(job)
        (attempt,) = await rig.attempts(job)
        assert (queued.state, queued.failures) == (JobState.QUEUED, 1)
        assert queued.run_after - attempt.finished_at == SECOND * 90

    async def test_a_result_is_committed_with_the_state_and_read_with_the_job(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        lease = await rig.lease(job)
        async with rig.database.begin(tenant) as tx:
            assert await tx.jobs.settle(done(lease))
            await tx.jobs.save_result(job.id, {"total": 12.5, "na\0me": ["Müller\0", "\ud83d\ude00", None]})
        ended = await rig.again(job)
        assert (ended.state, ended.result) == (JobState.DONE, {"total": 12.5, "name": ["Müller", "😀", None]})

    @pytest.mark.parametrize("first", [{"page": 1}, None])
    async def test_a_second_result_is_a_conflict(self, rig: Rig, first: object) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        async with rig.database.begin(tenant) as tx:
            await tx.jobs.save_result(job.id, first)
        with pytest.raises(Conflict):
            async with rig.database.begin(tenant) as tx:
                await tx.jobs.save_result(job.id, {"page": 2})
        assert (await rig.again(job)).result == first

    async def test_a_result_needs_a_job_of_the_tenant(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        other = await rig.tenant("other")
        with pytest.raises(NotFound):
            async with rig.database.begin(other) as tx:
                await tx.jobs.save_result(job.id, {})
        assert (await rig.again(job)).result is None

    async def test_what_waits_for_a_text_is_made_due_and_nothing_else_is(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document, other = await rig.document(tenant), await rig.document(tenant)
        hour = timedelta(hours=1)
        waiting = [
            await rig.enqueue(tenant, kind=kind, document_id=document.id, run_in=hour) for kind in sorted(NEED_TEXT)
        ]
        tried = await rig.enqueue(tenant, kind="ask", document_id=document.id)
        assert await rig.settle(retry(await rig.lease(tried), delay=hour))
        cancelled = await rig.enqueue(tenant, kind="ask", document_id=document.id, run_in=hour)
        await rig.cancel(cancelled)
        others = [
            tried,
            cancelled,
            await rig.enqueue(tenant, document_id=document.id, run_in=hour),
            await rig.enqueue(tenant, kind="ask", document_id=other.id, run_in=hour),
        ]
        before = [await rig.again(job) for job in others]
        async with rig.database.begin(tenant) as tx:
            assert sorted(await tx.jobs.wake(document.id)) == sorted((job.kind, ring_of(job)) for job in waiting)
        async with rig.database.begin(tenant) as tx:
            assert await tx.jobs.wake(document.id) == []
        assert [await rig.again(job) for job in others] == before
        for job in waiting:
            assert (await rig.claim(ring_of(job), kinds=NEED_TEXT)).outcome is ClaimOutcome.CLAIMED
