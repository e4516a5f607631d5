"""`Leases`: one claimer for each attempt, and no write by a worker whose lease is lost."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from app.domain.doorbells import Ring
from app.domain.ids import JobId, TenantId, uuid7
from app.domain.jobs import AttemptOutcome, Job, JobError, JobState, Progress
from app.domain.leases import ClaimOutcome, ClaimResult, Lease, LeaseBeat
from tests.support.rig import (
    KIND,
    LEASE,
    OOPS,
    SECOND,
    Rig,
    done,
    fail,
    put_back,
    release,
    retry,
    ring_of,
    snooze,
)

MINUTE = timedelta(minutes=1)


async def claims(rig: Rig, rings: Sequence[Ring], *, worker: str = "worker") -> list[ClaimResult]:
    return await rig.leases.claim(rings, worker=worker, lease=LEASE, kinds=frozenset({KIND}))


async def outcome(rig: Rig, job: Job) -> ClaimOutcome:
    return (await rig.claim(ring_of(job))).outcome


class LeasesSuite:
    async def test_a_due_job_is_claimed(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        job = await rig.enqueue(
            tenant, document_id=document.id, payload={"a": [1]}, max_attempts=9, traceparent="00-trace"
        )
        await rig.advance(SECOND * 7)
        claimed = await rig.claimed(job, worker="host:1")
        assert claimed.lease == Lease(tenant_id=tenant, job_id=job.id, attempt=1)
        assert (claimed.kind, claimed.document_id, claimed.payload) == (KIND, document.id, {"a": [1]})
        assert (claimed.failures, claimed.max_attempts, claimed.traceparent) == (0, 9, "00-trace")
        assert SECOND * 7 <= claimed.waited < SECOND * 30
        row = await rig.again(job)
        assert (row.state, row.attempts, row.claimed_by, row.progress) == (JobState.CLAIMED, 1, "host:1", None)
        assert row.started_at is not None
        assert row.lease_until is not None
        assert row.lease_until - row.started_at == LEASE

    async def test_nobody_else_gets_a_claimed_job(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        await rig.lease(job, worker="first")
        before = await rig.again(job)
        claim = await rig.claim(ring_of(job), worker="second")
        assert (claim.outcome, claim.job) == (ClaimOutcome.TAKEN, None)
        assert await rig.again(job) == before

    async def test_a_lease_that_ran_out_is_taken_until_it_is_swept(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        await rig.lease(job)
        await rig.advance(LEASE * 2)
        assert await outcome(rig, job) is ClaimOutcome.TAKEN

    async def test_a_job_is_not_claimed_before_it_is_due(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant(), run_in=MINUTE)
        assert await outcome(rig, job) is ClaimOutcome.NOT_DUE
        assert await rig.again(job) == job
        await rig.advance(MINUTE + SECOND)
        assert await outcome(rig, job) is ClaimOutcome.CLAIMED

    async def test_an_ended_job_answers_how_it_ended(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        succeeded, failed, cancelled = [await rig.enqueue(tenant) for _ in range(3)]
        await rig.settle(done(await rig.lease(succeeded)))
        await rig.settle(fail(await rig.lease(failed)))
        await rig.cancel(cancelled)
        for job, expected in (
            (succeeded, ClaimOutcome.DONE),
            (failed, ClaimOutcome.FAILED),
            (cancelled, ClaimOutcome.CANCELLED),
        ):
            before = await rig.again(job)
            assert await outcome(rig, job) is expected
            assert await rig.again(job) == before

    async def test_an_unknown_kind_is_put_off_and_costs_nothing(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant(), kind="from-the-future")
        claim = await rig.claim(ring_of(job), kinds=frozenset({KIND}))
        assert (claim.outcome, claim.job) == (ClaimOutcome.UNKNOWN_KIND, None)
        row = await rig.again(job)
        assert (row.state, row.attempts, row.failures, row.releases) == (JobState.QUEUED, 0, 0, 0)
        both = frozenset({KIND, "from-the-future"})
        await rig.advance(SECOND * 50)
        assert (await rig.claim(ring_of(job), kinds=both)).outcome is ClaimOutcome.NOT_DUE
        await rig.advance(SECOND * 11)
        assert (await rig.claim(ring_of(job), kinds=both)).outcome is ClaimOutcome.CLAIMED

    @pytest.mark.threat(75)
    async def test_a_job_of_a_suspended_tenant_is_put_off(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        await rig.suspend(tenant)
        claim = await rig.claim(ring_of(job))
        assert (claim.outcome, claim.job) == (ClaimOutcome.SUSPENDED, None)
        assert (await rig.again(job)).attempts == 0
        await rig.resume(tenant)
        assert await outcome(rig, job) is ClaimOutcome.NOT_DUE
        await rig.advance(SECOND * 61)
        assert await outcome(rig, job) is ClaimOutcome.CLAIMED

    async def test_a_job_that_was_put_off_is_rung_when_it_is_due_again(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant, kind="from-the-future")
        await rig.claim(ring_of(job))
        await rig.advance(SECOND * 50)
        assert await rig.sweeps.sweep([tenant], limit=10) == []
        await rig.advance(SECOND * 16)
        assert [swept.ring for swept in await rig.sweeps.sweep([tenant], limit=10)] == [ring_of(job)]

    @pytest.mark.threat(31)
    async def test_an_unknown_job_and_an_unknown_tenant_are_missing(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        for ring in (Ring(tenant, JobId(uuid7())), Ring(TenantId("nobody"), JobId(uuid7()))):
            claim = await rig.claim(ring)
            assert (claim.outcome, claim.job) == (ClaimOutcome.MISSING_OR_LOCKED, None)

    @pytest.mark.threat(30)
    async def test_a_forged_doorbell_claims_nothing_of_another_tenant(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        job = await rig.enqueue(acme)
        assert (await rig.claim(Ring(bolt, job.id))).outcome is ClaimOutcome.MISSING_OR_LOCKED
        assert await rig.again(job) == job
        assert await outcome(rig, job) is ClaimOutcome.CLAIMED

    async def test_a_batch_answers_each_distinct_doorbell_of_every_tenant(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        jobs = [await rig.enqueue(tenant) for tenant in (bolt, acme, bolt, acme)]
        later = await rig.enqueue(acme, run_in=MINUTE)
        forged = Ring(acme, jobs[0].id)
        rings = [ring_of(job) for job in jobs]
        answers = await claims(rig, [*rings, ring_of(later), forged, rings[0], rings[1]])
        assert {claim.ring: claim.outcome for claim in answers} == dict.fromkeys(rings, ClaimOutcome.CLAIMED) | {
            ring_of(later): ClaimOutcome.NOT_DUE,
            forged: ClaimOutcome.MISSING_OR_LOCKED,
        }
        assert len(answers) == 6
        assert all(claim.job.lease.job_id == claim.ring.job_id for claim in answers if claim.job is not None)

    async def test_an_empty_batch_has_empty_answers(self, rig: Rig) -> None:
        assert await claims(rig, []) == []
        assert await rig.leases.beat([], lease=LEASE) == []
        assert await rig.leases.settle([]) == []

    @pytest.mark.threat(35)
    async def test_of_many_claimers_one_gets_the_job(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        answers = await asyncio.gather(*(claims(rig, [ring_of(job)], worker=f"worker-{n}") for n in range(20)))
        outcomes = [claim.outcome for answer in answers for claim in answer]
        assert outcomes.count(ClaimOutcome.CLAIMED) == 1
        # Whoever came during the claim found the row locked.
        assert set(outcomes) <= {ClaimOutcome.CLAIMED, ClaimOutcome.TAKEN, ClaimOutcome.MISSING_OR_LOCKED}
        assert (await rig.again(job)).attempts == 1

    @pytest.mark.threat(38)
    async def test_claimers_of_overlapping_batches_share_the_jobs(self, rig: Rig) -> None:
        tenants = [await rig.tenant(name) for name in ("acme", "bolt", "cord")]
        rings = [ring_of(await rig.enqueue(tenant)) for tenant in tenants for _ in range(4)]
        orders = (rings, rings[::-1], rings[6:] + rings[:6])
        answers = await asyncio.gather(*(claims(rig, order) for order in orders for _ in range(2)))
        got = [claim.ring for answer in answers for claim in answer if claim.outcome is ClaimOutcome.CLAIMED]
        assert sorted(got) == sorted(rings)

    async def test_a_beat_extends_the_lease_from_now(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        lease = await rig.lease(job)
        for _ in range(3):
            await rig.advance(SECOND * 40)
            beat = await rig.beat(lease)
            assert (beat.lease, beat.held, beat.cancel_requested) == (lease, True, False)
            assert await rig.sweeps.sweep([tenant], limit=10) == []
        await rig.expire(job)

    async def test_a_beat_carries_the_progress_and_one_without_keeps_it(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        lease = await rig.lease(job)
        progress = Progress(done=3, total=12, unit="pages")
        await rig.leases.beat([LeaseBeat(lease=lease, progress=progress)], lease=LEASE)
        await rig.beat(lease)
        assert (await rig.again(job)).progress == progress
        await rig.settle(release(lease))
        assert (await rig.again(job)).progress is None

    async def test_a_lease_that_ran_out_holds_until_it_is_swept(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        lease = await rig.lease(job)
        await rig.advance(LEASE * 2)
        assert (await rig.beat(lease)).held
        assert await rig.sweeps.sweep([tenant], limit=10) == []

    async def test_beats_are_answered_for_each_lease(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        held = await rig.lease(await rig.enqueue(bolt))
        job = await rig.enqueue(acme)
        flagged = await rig.lease(job)
        await rig.cancel(job)
        foreign = Lease(tenant_id=acme, job_id=held.job_id, attempt=1)
        unknown = Lease(tenant_id=TenantId("nobody"), job_id=held.job_id, attempt=1)
        stale = Lease(tenant_id=bolt, job_id=held.job_id, attempt=0)
        leases = [held, flagged, foreign, unknown, stale]
        beats = await rig.leases.beat([LeaseBeat(lease=lease) for lease in leases], lease=LEASE)
        assert {beat.lease: (beat.held, beat.cancel_requested) for beat in beats if beat.held} == {
            held: (True, False),
            flagged: (True, True),
        }
        assert {beat.lease for beat in beats} == set(leases)

    @pytest.mark.threat(79)
    async def test_a_late_worker_can_not_touch_a_job_that_was_claimed_again(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        late = await rig.lease(job, worker="same")
        await rig.expire(job)
        current = await rig.lease(job, worker="same")
        assert current.attempt > late.attempt
        before, history = await rig.again(job), await rig.attempts(job)
        beat = await rig.beat(late)
        assert not beat.held
        for settlement in (done(late), retry(late), fail(late), snooze(late), release(late)):
            assert not await rig.settle(settlement)
        assert await rig.again(job) == before
        assert await rig.attempts(job) == history
        assert await rig.settle(done(current))

    async def test_a_late_worker_can_not_touch_a_job_that_is_queued_again(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        late = await rig.lease(job)
        await rig.expire(job)
        before = await rig.again(job)
        assert not (await rig.beat(late)).held
        assert not await rig.settle(done(late))
        assert await rig.again(job) == before

    async def test_an_attempt_ends_once(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        lease = await rig.lease(job)
        answers = await asyncio.gather(*(rig.settle(retry(lease)) for _ in range(5)))
        assert sorted(answers) == [False] * 4 + [True]
        assert (await rig.again(job)).failures == 1
        assert len(await rig.attempts(job)) == 1

    async def test_the_same_settlement_twice_in_a_batch_counts_once(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        lease = await rig.lease(job)
        assert [*map(bool, await rig.leases.settle([retry(lease), retry(lease)]))] == [True, False]
        assert (await rig.again(job)).failures == 1
        assert len(await rig.attempts(job)) == 1

    async def test_a_batch_of_settlements_is_answered_in_its_order(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        jobs = [await rig.enqueue(tenant) for tenant in (bolt, acme, bolt)]
        leases = [await rig.lease(job) for job in jobs]
        foreign = Lease(tenant_id=acme, job_id=leases[0].job_id, attempt=1)
        unknown = Lease(tenant_id=TenantId("nobody"), job_id=leases[0].job_id, attempt=1)
        answers = await rig.leases.settle(
            [fail(foreign), done(leases[2]), done(unknown), done(leases[1]), retry(leases[0])]
        )
        assert [*map(bool, answers)] == [False, True, False, True, True]
        assert [(await rig.again(job)).state for job in jobs] == [JobState.QUEUED, JobState.DONE, JobState.DONE]

    async def test_done_ends_the_job_and_clears_the_last_error(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        await rig.settle(retry(await rig.lease(job)))
        assert (await rig.again(job)).error == OOPS
        await rig.advance(SECOND * 2)
        assert await rig.settle(done(await rig.lease(job)))
        row = await rig.again(job)
        assert (row.state, row.error, row.claimed_by, row.lease_until) == (JobState.DONE, None, None, None)
        assert row.finished_at is not None

    async def test_fail_ends_the_job_with_its_error(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        assert await rig.settle(fail(await rig.lease(job)))
        row = await rig.again(job)
        assert (row.state, row.error, row.claimed_by, row.lease_until) == (JobState.FAILED, OOPS, None, None)
        assert (row.failures, row.releases, row.expiries) == (1, 0, 0)
        assert row.finished_at is not None

    async def test_a_retry_waits_and_counts_a_failure(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        assert await rig.settle(retry(await rig.lease(job), delay=SECOND * 20))
        row, (attempt,) = await rig.again(job), await rig.attempts(job)
        assert (row.state, row.error, row.claimed_by, row.lease_until) == (JobState.QUEUED, OOPS, None, None)
        assert (row.failures, row.releases, row.expiries, row.finished_at) == (1, 0, 0, None)
        assert row.run_after - attempt.finished_at == SECOND * 20
        assert await outcome(rig, job) is ClaimOutcome.NOT_DUE
        await rig.advance(SECOND * 21)
        assert (await rig.claimed(job)).failures == 1

    async def test_a_snooze_waits_and_counts_nothing(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        assert await rig.settle(snooze(await rig.lease(job), delay=SECOND * 20))
        row = await rig.again(job)
        assert (row.state, row.failures, row.releases, row.expiries) == (JobState.QUEUED, 0, 0, 0)
        assert await outcome(rig, job) is ClaimOutcome.NOT_DUE

    async def test_a_release_is_due_at_once_and_counted_apart(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        await rig.settle(retry(await rig.lease(job)))
        await rig.advance(SECOND * 2)
        assert await rig.settle(release(await rig.lease(job)))
        row = await rig.again(job)
        assert (row.state, row.failures, row.releases, row.expiries) == (JobState.QUEUED, 1, 1, 0)
        # Nothing new went wrong, so what went wrong before is still what there is to say.
        assert row.error == OOPS
        assert await outcome(rig, job) is ClaimOutcome.CLAIMED

    async def test_a_job_that_is_put_back_for_others_counts_nothing_and_keeps_its_progress(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        lease = await rig.lease(job)
        await rig.advance(SECOND * 7)
        assert await rig.settle(put_back(lease, progress=Progress(done=3, total=9, unit="page")))
        row = await rig.again(job)
        assert (row.state, row.attempts, row.failures, row.expiries, row.releases) == (JobState.QUEUED, 1, 0, 0, 0)
        assert (row.recognition, row.error, row.claimed_by) == (False, None, None)
        assert row.progress == Progress(done=3, total=9, unit="page")
        assert SECOND * 7 <= row.worked < SECOND * 30
        assert await rig.attempts(job) == []
        assert await outcome(rig, job) is ClaimOutcome.CLAIMED

    async def test_the_time_of_all_attempts_adds_up(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        for settlement in (put_back, release):
            lease = await rig.lease(job)
            await rig.advance(SECOND * 7)
            assert await rig.settle(settlement(lease))
        assert SECOND * 14 <= (await rig.again(job)).worked < SECOND * 40

    async def test_a_cancelled_job_is_not_put_back(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        lease = await rig.lease(job)
        await rig.cancel(job)
        assert await rig.settle(put_back(lease))
        assert (await rig.again(job)).state is JobState.CANCELLED
        assert [attempt.outcome for attempt in await rig.attempts(job)] == [AttemptOutcome.CANCELLED]

    async def test_no_more_jobs_that_wait_for_recognition_are_claimed_than_slots_are_free(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        waiting = [await rig.enqueue(tenant) for tenant in (acme, acme, bolt)]
        for job in waiting:
            assert await rig.settle(put_back(await rig.lease(job), recognition=True))
        assert (await rig.again(waiting[0])).recognition
        plain = await rig.enqueue(bolt)
        rings = [ring_of(job) for job in (*waiting, plain)]
        for free, begun in ((0, 0), (1, 1), (1, 1), (None, 1)):
            answers = {
                claim.ring: claim.outcome
                for claim in await rig.leases.claim(
                    rings, worker="worker", lease=LEASE, kinds=frozenset({KIND}), recognition=free
                )
            }
            of_waiting = [answers[ring_of(job)] for job in waiting]
            assert of_waiting.count(ClaimOutcome.CLAIMED) == begun
            if free == 0:
                assert of_waiting == [ClaimOutcome.RECOGNITION] * 3
                assert answers[ring_of(plain)] is ClaimOutcome.CLAIMED

    async def test_a_job_without_a_recognition_slot_is_rung_for_ever_less_often(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        assert await rig.settle(put_back(await rig.lease(job), recognition=True))
        rung = []
        for _ in range(20):
            await rig.advance(SECOND * 40)
            found = await rig.sweeps.sweep([tenant], limit=9)
            rung.append(len(found))
            if found:
                (claim,) = await rig.leases.claim(
                    [ring_of(job)], worker="worker", lease=LEASE, kinds=frozenset({KIND}), recognition=0
                )
                assert claim.outcome is ClaimOutcome.RECOGNITION
        assert 3 <= sum(rung) <= 6

    async def test_a_job_that_is_queued_again_is_rung_after_its_delay_and_a_grace(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        job = await rig.enqueue(tenant)
        await rig.settle(retry(await rig.lease(job), delay=SECOND * 60))
        await rig.advance(SECOND * 61)
        assert await rig.sweeps.sweep([tenant], limit=10) == []
        await rig.advance(SECOND * 5)
        assert [swept.ring for swept in await rig.sweeps.sweep([tenant], limit=10)] == [ring_of(job)]

    async def test_attempts_only_ever_grow(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        seen = []
        for ending in (retry, release, snooze, None, release, done):
            lease = await rig.lease(job)
            seen.append(lease.attempt)
            if ending is None:
                await rig.expire(job)
            else:
                assert await rig.settle(ending(lease))
            seen.append((await rig.again(job)).attempts)
            await rig.advance(SECOND * 2)
        assert seen == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]

    async def test_each_attempt_leaves_one_entry_in_the_history(self, rig: Rig) -> None:
        job = await rig.enqueue(await rig.tenant())
        for ending in (retry, release, snooze, fail):
            assert await rig.settle(ending(await rig.lease(job, worker=ending.__name__)))
            await rig.advance(SECOND * 2)
        history = await rig.attempts(job)
        assert [(entry.attempt, entry.worker, entry.outcome, entry.error) for entry in history] == [
            (1, "retry", AttemptOutcome.RETRY, OOPS),
            (2, "release", AttemptOutcome.RELEASE, None),
            (3, "snooze", AttemptOutcome.SNOOZE, None),
            (4, "fail", AttemptOutcome.FAIL, OOPS),
        ]
        assert all(entry.job_id == job.id and entry.started_at <= entry.finished_at for entry in history)

    @pytest.mark.parametrize("message", ["a\0b", "a\ud800b", "a" * 5000 + "\0", "\0", "ünïcödé \U0001f600"])
    async def test_an_error_text_is_stored_whatever_a_handler_raised(self, rig: Rig, message: str) -> None:
        job = await rig.enqueue(await rig.tenant())
        assert await rig.settle(retry(await rig.lease(job), error=JobError(code="oops", message=message)))
        row, (attempt,) = await rig.again(job), await rig.attempts(job)
        clean = message.replace("\0", "").replace("\ud800", "")[:2000]
        assert row.error == attempt.error == JobError(code="oops", message=clean)
