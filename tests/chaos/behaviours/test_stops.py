"""Deploys, cancels and doubled bells: a job goes on elsewhere, stops for good, or starts once (T6–T9)."""

import asyncio
import signal
import time
from datetime import timedelta
from functools import partial

import pytest

from app.adapters.postgres.engine import PostgresEngine
from app.domain.jobs import Job, JobState
from app.domain.leases import ClaimOutcome
from tests.chaos.behaviours import steps
from tests.chaos.behaviours.environment import BEAT, GRACE, LEASE, SWEEP, Environment, open_environment
from tests.chaos.behaviours.processes import Worker, eventually
from tests.chaos.behaviours.scenarios import side_by_side
from tests.chaos.queues import Queue, redis_queue
from tests.support.databases import Cloned, Databases
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import ring_of


@side_by_side
async def test_t06_a_worker_that_is_told_to_stop_finishes_what_runs_and_claims_nothing_more(
    databases: Databases,
) -> None:
    async with open_environment(databases) as environment:
        (worker,) = await environment.work()
        job = await environment.submit(payload={"seconds": 15})
        await environment.mark(job)
        lease = (await environment.rig.again(job)).lease_until
        worker.send(signal.SIGTERM)
        told = time.monotonic()
        await eventually(lambda: worker.logged("worker_stopping"), within=5)
        late = await environment.submit(payload={})
        assert await worker.ended(within=GRACE + 10) == 0
        assert time.monotonic() - told <= GRACE
        ended = await environment.rig.again(job)
        assert (ended.state, ended.attempts, ended.releases) == (JobState.DONE, 1, 0)
        assert len(environment.marks(job)) == 1
        # A lease of 10 s that was not renewed after the signal would have been over before its handler ended.
        assert lease is not None
        assert ended.finished_at is not None
        assert ended.finished_at > lease
        waiting = await environment.rig.again(late)
        assert (waiting.state, waiting.attempts) == (JobState.QUEUED, 0)
        await environment.work()
        await environment.done(late, within=SWEEP + 5)


@side_by_side
async def test_t07_a_deploy_gives_a_job_back_at_once_and_at_no_cost(databases: Databases) -> None:
    grace = 3
    async with open_environment(databases, {"DAIRA_GRACE_SECONDS": str(grace)}) as environment:
        await environment.work(2)
        job = await environment.submit(payload={"seconds": [60, 0.1], "do": "result"}, max_attempts=1)
        first = await environment.mark(job)
        worker = environment.worker(first)
        worker.send(signal.SIGTERM)
        told = time.monotonic()
        second = await environment.mark(job, attempt=2, within=LEASE + 20)
        assert second.at - told < grace + 2, "it was rung as it was given back, and waited for no lease and no sweep"
        assert second.pid != first.pid
        assert await worker.ended(within=10) == 0
        done = await environment.done(job, within=10)
        assert (done.attempts, done.failures, done.expiries, done.releases) == (2, 0, 0, 1)
        assert (done.error, done.result) == (None, {"attempt": 2, "text": ""})
        assert await environment.history(job) == ["release", "done"]
        assert [attempt.error for attempt in await environment.rig.attempts(job)] == [None, None]


CANCELLED_WITHIN = BEAT + 1 + 3
"""Seconds: the beat, the turn of the heart that sends it, and what a busy machine takes."""


async def _cancelled_while_it_runs(environment: Environment, *, stubborn: bool) -> Job:
    web, _, _ = (*await environment.work(DAIRA_ROLE="web"), *await environment.work(2))
    key = await environment.key()
    job = await environment.submit(payload={"seconds": 20, "do": "raise", "stubborn": stubborn})
    started = (await environment.mark(job)).at
    await eventually(lambda: time.monotonic() > started + 2, within=5)
    answer = await web.post(f"/v1/jobs/{job.id}/cancel", key=key)
    asked = time.monotonic()
    assert answer.status_code == 200
    assert answer.json()["state"] == "claimed"
    ended = await environment.ended(job, within=30)
    assert ended.state is JobState.CANCELLED
    assert time.monotonic() - asked < CANCELLED_WITHIN
    return ended


@side_by_side
async def test_t08_a_cancel_reaches_a_running_handler_with_the_next_beat(databases: Databases) -> None:
    async with open_environment(databases) as environment:
        job = await _cancelled_while_it_runs(environment, stubborn=False)
        assert len(environment.marks(job, "stopped")) == 1


async def _stays_cancelled(databases: Databases, *, seconds: float) -> None:
    async with open_environment(databases) as environment:
        job = await _cancelled_while_it_runs(environment, stubborn=True)
        assert len(environment.marks(job, "raised")) == 1, "it was not heard, and failed after the cancel"
        await environment.doorbell.ring([ring_of(job)])
        await asyncio.sleep(seconds)
        after = await environment.rig.again(job)
        assert (after.state, after.attempts) == (JobState.CANCELLED, 1)
        assert len(environment.marks(job)) == 1
        assert await environment.history(job) == ["cancelled"]


@side_by_side
async def test_t08_a_job_that_fails_after_a_cancel_stays_cancelled(databases: Databases) -> None:
    await _stays_cancelled(databases, seconds=3 * SWEEP)


@pytest.mark.slow
@side_by_side
async def test_t08_a_job_that_fails_after_a_cancel_is_not_run_again_for_a_minute(databases: Databases) -> None:
    await _stays_cancelled(databases, seconds=60)


@side_by_side
async def test_t08_a_job_that_is_cancelled_before_its_claim_never_runs(databases: Databases) -> None:
    async with open_environment(databases) as environment:
        (web,) = await environment.work(DAIRA_ROLE="web")
        job = await environment.submit(payload={})
        answer = await web.post(f"/v1/jobs/{job.id}/cancel", key=await environment.key())
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
        (worker,) = await environment.work()
        await eventually(lambda: _has_answered(worker, "cancelled"), within=10)
        assert environment.marks(job) == []
        assert (await environment.rig.again(job)).attempts == 0


async def _has_answered(worker: Worker, outcome: str) -> bool:
    return await worker.metric("daira_claims_total", outcome=outcome) > 0


@side_by_side
async def test_t09_fifty_bells_of_one_job_start_it_once(databases: Databases) -> None:
    async with (
        databases.clone() as cloned,
        redis_queue(cloned) as queue,
        open_environment(cloned, {"DAIRA_QUEUE_URL": queue.url}, doorbell=queue.doorbell) as environment,
    ):
        await steps.rung_again_and_again(environment)
        await eventually(partial(_is_empty, queue), within=10)


async def _is_empty(queue: Queue) -> bool:
    return await queue.doorbell.answer(limit=1, wait=timedelta()) == []


async def test_t09_a_bell_for_a_job_that_somebody_is_claiming_is_answered_at_once(
    cloned: Cloned, engine: PostgresEngine
) -> None:
    """It waits for no lock: a batch of other jobs' bells would wait with it."""
    rig = postgres_rig(cloned, engine)
    tenant = await rig.tenant()
    held, free = await rig.enqueue(tenant), await rig.enqueue(tenant)
    async with engine.begin() as connection:
        await connection.exec_driver_sql("select set_config('app.tenant_id', 'acme', true)")
        await connection.exec_driver_sql(f"select 1 from daira.jobs where id = '{held.id}' for update")
        async with asyncio.timeout(5):
            claims = await rig.leases.claim(
                [ring_of(held), ring_of(free)],
                worker="another",
                lease=timedelta(seconds=LEASE),
                kinds=frozenset({"ocr"}),
            )
        assert {claim.ring.job_id: claim.outcome for claim in claims} == {
            held.id: ClaimOutcome.MISSING_OR_LOCKED,
            free.id: ClaimOutcome.CLAIMED,
        }
