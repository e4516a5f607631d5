"""An attempt, from the claimed row to the settled one: every outcome lands, and nothing of a lost lease does."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from app.domain.errors import DocumentFault, Unavailable
from app.domain.ids import DocumentId
from app.domain.job_errors import internal_error
from app.domain.jobs import CANCELLED, AttemptOutcome, JobError, JobState
from app.domain.leases import ClaimedJob, ClaimOutcome, Lease
from app.domain.outcomes import Done, Fail, Outcome, Retry, Snooze, backoff
from app.ports.database import Tx
from app.ports.leases import ProgressReporter
from app.services import execution
from app.services.execution import Interruption
from app.worker.heartbeat import HeldLease
from tests.support.rig import OOPS, SECOND, Rig, done, new_page, ring_of
from tests.unit.bench import Act, Away, Bench, a_hold, outcomes
from tests.unit.waiting import until


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "SETTLE_AGAIN", 0.001)


def answers(outcome: Outcome) -> Act:
    async def act(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        return outcome

    return act


def raises(error: BaseException) -> Act:
    async def act(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        raise error

    return act


async def never_ends(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
    await asyncio.Event().wait()
    return Done()


def writes_pages(document: DocumentId, *texts: str) -> Callable[[Tx], Awaitable[None]]:
    async def apply(tx: Tx) -> None:
        await tx.pages.replace(document, [new_page(number + 1, text=text) for number, text in enumerate(texts)])
        await tx.documents.set_read(document, page_count=len(texts))

    return apply


async def test_done_ends_the_job(bench: Bench) -> None:
    job = await bench.run(await bench.rig.enqueue(await bench.rig.tenant()))
    assert (job.state, job.attempts, job.failures, job.error) == (JobState.DONE, 1, 0, None)
    assert job.finished_at is not None
    (attempt,) = await bench.rig.attempts(job)
    assert (attempt.outcome, attempt.worker) == (AttemptOutcome.DONE, "worker")
    assert outcomes(bench, "done") == 1
    assert await bench.rung() == []


async def test_fail_ends_the_job_with_its_reason(bench: Bench) -> None:
    bench.handler.act = answers(Fail(OOPS))
    job = await bench.run(await bench.rig.enqueue(await bench.rig.tenant()))
    assert (job.state, job.failures, job.error) == (JobState.FAILED, 1, OOPS)
    assert outcomes(bench, "fail") == 1


async def test_retry_queues_the_job_and_rings_when_it_is_due_again(bench: Bench) -> None:
    bench.handler.act = answers(Retry(OOPS, after=timedelta(minutes=3)))
    job = await bench.run(await bench.rig.enqueue(await bench.rig.tenant()))
    assert (job.state, job.failures, job.error) == (JobState.QUEUED, 1, OOPS)
    assert job.run_after - job.created_at == timedelta(minutes=3)
    assert await bench.rung() == []
    assert bench.count("daira_doorbells_total", event="rung") == 1
    assert (await bench.rig.claim(ring_of(job))).outcome is ClaimOutcome.NOT_DUE
    await bench.rig.advance(timedelta(minutes=3))
    assert (await bench.rig.claim(ring_of(job))).outcome is ClaimOutcome.CLAIMED


async def test_snooze_queues_the_job_and_counts_no_failure(bench: Bench) -> None:
    bench.handler.act = answers(Snooze(timedelta(minutes=3)))
    job = await bench.run(await bench.rig.enqueue(await bench.rig.tenant(), max_attempts=1))
    assert (job.state, job.failures, job.error) == (JobState.QUEUED, 0, None)
    assert job.run_after - job.created_at == timedelta(minutes=3)
    assert outcomes(bench, "snooze") == 1


async def test_an_exception_is_retried_with_backoff(bench: Bench) -> None:
    bench.handler.act = raises(RuntimeError("boom"))
    job = await bench.run(await bench.rig.enqueue(await bench.rig.tenant()))
    assert (job.state, job.failures) == (JobState.QUEUED, 1)
    assert job.error == internal_error(Lease(job.tenant_id, job.id, 1))
    assert str(job.id) in job.error.message
    assert backoff(0, jitter=0) <= job.run_after - job.created_at <= backoff(0, jitter=1)


async def test_what_was_not_to_be_had_is_tried_again_and_no_fault_of_ours(bench: Bench) -> None:
    bench.handler.act = raises(Unavailable("the blob store does not answer"))
    job = await bench.run(await bench.rig.enqueue(await bench.rig.tenant()))
    assert (job.state, job.failures) == (JobState.QUEUED, 1)
    assert job.error is not None
    assert (job.error.code, "blob store" in job.error.message) == ("unavailable", False)
    assert f"job {job.id}, attempt 1" in job.error.message


async def test_exceptions_end_the_job_at_max_attempts(bench: Bench) -> None:
    bench.handler.act = raises(RuntimeError("boom"))
    job = await bench.rig.enqueue(await bench.rig.tenant(), max_attempts=3)
    states = []
    for _ in range(3):
        states.append((await bench.run(job)).state)
        await bench.rig.advance(timedelta(hours=1))
    assert states == [JobState.QUEUED, JobState.QUEUED, JobState.FAILED]
    assert (await bench.rig.again(job)).failures == 3
    assert [attempt.outcome for attempt in await bench.rig.attempts(job)] == ["retry", "retry", "fail"]


async def test_a_document_fault_fails_the_job_at_once_with_its_code(bench: Bench) -> None:
    bench.handler.act = raises(DocumentFault("encrypted", "the file needs a password"))
    job = await bench.run(await bench.rig.enqueue(await bench.rig.tenant()))
    assert (job.state, job.failures) == (JobState.FAILED, 1)
    assert job.error == JobError(code="encrypted", message="the file needs a password")


async def test_results_and_done_are_there_together(bench: Bench) -> None:
    tenant = await bench.rig.tenant()
    document = await bench.rig.document(tenant)
    job = await bench.rig.enqueue(tenant, document_id=document.id)
    states: list[tuple[JobState, JobState]] = []

    async def apply(tx: Tx) -> None:
        inside = await tx.jobs.get(job.id)
        assert inside is not None
        states.append((inside.state, (await bench.rig.again(job)).state))
        await writes_pages(document.id, "one", "two")(tx)

    bench.handler.act = answers(Done(apply))
    assert (await bench.run(job)).state is JobState.DONE
    # The fence comes first within the transaction, and nobody else sees it before the results are there too.
    assert states == [(JobState.DONE, JobState.CLAIMED)]
    assert [page.text for page in await bench.rig.pages(document)] == ["one", "two"]


async def test_results_that_can_not_be_written_are_rolled_back_and_the_job_is_retried(bench: Bench) -> None:
    tenant = await bench.rig.tenant()
    document = await bench.rig.document(tenant)

    async def apply(tx: Tx) -> None:
        await writes_pages(document.id, "one")(tx)
        raise ValueError("no more room")

    bench.handler.act = answers(Done(apply))
    job = await bench.run(await bench.rig.enqueue(tenant, document_id=document.id))
    assert (job.state, job.failures) == (JobState.QUEUED, 1)
    assert job.error == internal_error(Lease(job.tenant_id, job.id, 1))
    assert await bench.rig.pages(document) == []
    assert [attempt.outcome for attempt in await bench.rig.attempts(job)] == [AttemptOutcome.RETRY]


@pytest.mark.threat(79)
@pytest.mark.parametrize("with_results", [True, False])
async def test_an_attempt_whose_lease_ran_out_writes_nothing_and_is_counted(
    bench: Bench, *, with_results: bool
) -> None:
    tenant = await bench.rig.tenant()
    document = await bench.rig.document(tenant)
    job = await bench.rig.enqueue(tenant, document_id=document.id)

    async def act(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        await bench.rig.expire(job)
        return Done(writes_pages(document.id, "late") if with_results else None)

    bench.handler.act = act
    late = await bench.run(job)
    assert (late.state, late.expiries, late.failures) == (JobState.QUEUED, 1, 0)
    assert await bench.rig.pages(document) == []
    assert [attempt.outcome for attempt in await bench.rig.attempts(job)] == [AttemptOutcome.EXPIRED]
    assert bench.count("daira_fenced_writes_total") == 1
    assert bench.count("daira_leases_lost_total") == 1
    assert outcomes(bench, "done") == 0


@pytest.mark.threat(79)
@pytest.mark.parametrize("with_results", [True, False])
async def test_a_late_worker_cannot_settle_a_job_that_was_claimed_again(bench: Bench, *, with_results: bool) -> None:
    tenant = await bench.rig.tenant()
    document = await bench.rig.document(tenant)
    job = await bench.rig.enqueue(tenant, document_id=document.id)
    successor: list[ClaimedJob] = []

    async def act(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        await bench.rig.expire(job)
        successor.append(await bench.rig.claimed(job, worker="successor"))
        return Done(writes_pages(document.id, "late") if with_results else None)

    bench.handler.act = act
    held = await bench.run(job)
    assert (held.state, held.attempts, held.claimed_by) == (JobState.CLAIMED, 2, "successor")
    assert await bench.rig.pages(document) == []
    assert bench.count("daira_fenced_writes_total") == 1
    assert bench.count("daira_leases_lost_total") == 1
    assert await bench.rig.settle(done(successor[0].lease))


async def test_an_attempt_that_was_told_of_its_lost_lease_does_not_even_try_to_settle(bench: Bench) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())

    async def stubborn(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        hold.interrupt(Interruption.LEASE_LOST)
        return Done()

    bench.handler.act = stubborn
    claimed = await bench.rig.claimed(job)
    hold = a_hold(claimed)
    await bench.execution().run(claimed, hold)
    assert (await bench.rig.again(job)).state is JobState.CLAIMED
    assert bench.count("daira_fenced_writes_total") == 0
    assert bench.count("daira_leases_lost_total") == 1


async def interrupted(bench: Bench, why: Interruption, *, before: Callable[[], Awaitable[Any]] | None = None) -> None:
    """Run a job whose handler never ends, and interrupt it once it runs."""
    job = await bench.rig.enqueue(await bench.rig.tenant(), max_attempts=1)
    bench.handler.act = never_ends
    claimed = await bench.rig.claimed(job)
    hold = a_hold(claimed)
    attempt = asyncio.create_task(bench.execution().run(claimed, hold))
    await until(lambda: bool(bench.handler.running))
    if before is not None:
        await before()
    hold.interrupt(why)
    async with asyncio.timeout(5):
        await attempt
    assert bench.handler.running == []


async def the_job(bench: Bench) -> Any:
    lease = bench.handler.started[0].lease
    async with bench.rig.database.begin(lease.tenant_id) as tx:
        job = await tx.jobs.get(lease.job_id)
    assert job is not None
    return job


async def test_a_cancel_stops_the_handler_and_ends_the_job_as_cancelled(bench: Bench) -> None:
    async def cancel() -> None:
        await bench.rig.cancel(await the_job(bench))

    await interrupted(bench, Interruption.CANCELLED, before=cancel)
    job = await the_job(bench)
    assert (job.state, job.error) == (JobState.CANCELLED, CANCELLED)
    assert [attempt.outcome for attempt in await bench.rig.attempts(job)] == [AttemptOutcome.CANCELLED]


async def test_a_stop_gives_the_job_back_at_no_cost_and_rings(bench: Bench) -> None:
    await interrupted(bench, Interruption.STOPPING)
    job = await the_job(bench)
    assert (job.state, job.releases, job.failures, job.error) == (JobState.QUEUED, 1, 0, None)
    assert await bench.rung() == [ring_of(job)]
    assert (await bench.rig.claim(ring_of(job))).outcome is ClaimOutcome.CLAIMED


async def test_a_lost_lease_stops_the_handler_and_leaves_the_row_alone(bench: Bench) -> None:
    await interrupted(bench, Interruption.LEASE_LOST)
    job = await the_job(bench)
    assert (job.state, job.attempts, job.releases) == (JobState.CLAIMED, 1, 0)
    assert await bench.rung() == []


async def test_a_handler_interrupted_before_its_first_step_never_runs(bench: Bench) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())
    claimed = await bench.rig.claimed(job)
    hold = a_hold(claimed)
    hold.interrupt(Interruption.STOPPING)
    await bench.execution().run(claimed, hold)
    assert bench.handler.started == []
    assert (await bench.rig.again(job)).releases == 1


async def test_a_job_that_finishes_although_cancelled_is_done(bench: Bench) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())

    async def act(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        await bench.rig.cancel(job)
        return Done()

    bench.handler.act = act
    assert (await bench.run(job)).state is JobState.DONE


async def test_a_failure_after_a_cancel_is_not_retried(bench: Bench) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())

    async def act(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        await bench.rig.cancel(job)
        raise RuntimeError("boom")

    bench.handler.act = act
    assert (await bench.run(job)).state is JobState.CANCELLED


async def test_a_handler_that_cancels_itself_has_failed_and_does_not_run_for_ever(bench: Bench) -> None:
    bench.handler.act = raises(asyncio.CancelledError())
    job = await bench.run(await bench.rig.enqueue(await bench.rig.tenant(), max_attempts=1))
    assert (job.state, job.failures, job.releases) == (JobState.FAILED, 1, 0)


@pytest.mark.parametrize("with_results", [True, False])
async def test_a_settle_is_tried_again_while_the_database_is_away(bench: Bench, *, with_results: bool) -> None:
    tenant = await bench.rig.tenant()
    document = await bench.rig.document(tenant)
    bench.handler.act = answers(Done(writes_pages(document.id, "kept") if with_results else None))
    away = bench.execution(database=Away(bench.rig.database, begin=3), leases=Away(bench.rig.leases, settle=3))
    job = await bench.run(await bench.rig.enqueue(tenant, document_id=document.id), execution=away)
    assert (job.state, job.attempts, job.failures) == (JobState.DONE, 1, 0)
    assert len(bench.handler.started) == 1
    assert len(await bench.rig.pages(document)) == with_results
    assert bench.count("daira_fenced_writes_total") == 0
    assert bench.count("daira_leases_lost_total") == 0


async def test_a_lease_that_runs_out_meanwhile_stops_the_settling(bench: Bench) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())
    claimed = await bench.rig.claimed(job)
    hold = a_hold(claimed)
    away = bench.execution(leases=Away(bench.rig.leases, settle=1_000_000))
    attempt = asyncio.create_task(away.run(claimed, hold))
    await until(lambda: bool(bench.handler.started) and not bench.handler.running)
    hold.interrupt(Interruption.LEASE_LOST)
    async with asyncio.timeout(5):
        await attempt
    assert (await bench.rig.again(job)).state is JobState.CLAIMED
    assert bench.count("daira_fenced_writes_total") == 1
    assert bench.count("daira_leases_lost_total") == 1


async def test_a_settle_that_is_refused_every_time_pauses_between_its_tries(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "SETTLE_AGAIN", 0.05)
    tries = 0

    class Refusing:
        async def settle(self, _settlements: object) -> list[bool]:
            nonlocal tries
            tries += 1
            raise LookupError("no such function")

    job = await bench.rig.enqueue(await bench.rig.tenant())
    claimed = await bench.rig.claimed(job)
    hold = a_hold(claimed)
    attempt = asyncio.create_task(bench.execution(leases=Refusing()).run(claimed, hold))  # type: ignore[arg-type]
    await until(lambda: tries >= 3)
    hold.interrupt(Interruption.LEASE_LOST)
    tries_then = tries
    async with asyncio.timeout(5):
        await attempt
    assert tries_then < 20
    assert tries <= tries_then + 1


async def test_a_settled_job_stays_settled_when_its_bell_can_not_be_rung(rig: Rig) -> None:
    bench = Bench(rig=rig)
    bench.handler.act = answers(Retry(OOPS))
    ringing = Away(bench.bell, ring=1)
    bench.bell = ringing  # type: ignore[assignment]
    job = await bench.run(await rig.enqueue(await rig.tenant()))
    assert (job.state, job.failures) == (JobState.QUEUED, 1)
    assert bench.count("daira_doorbells_total", event="failed") == 1


async def test_a_handler_gets_what_it_may_know_and_reports_to_the_hold(bench: Bench) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant(), payload={"a": 1}, max_attempts=7)
    reporters: list[ProgressReporter] = []

    async def act(_job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        reporters.append(reporter)
        return Done()

    bench.handler.act = act
    claimed = await bench.rig.claimed(job)
    hold = HeldLease(claimed.lease, claimed_at=0, length=SECOND)
    await bench.execution().run(claimed, hold)
    assert bench.handler.started == [claimed]
    assert (claimed.payload, claimed.max_attempts, claimed.failures) == ({"a": 1}, 7, 0)
    assert reporters == [hold]
