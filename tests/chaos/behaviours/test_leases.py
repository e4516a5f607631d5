"""Who may run a job, and whose word counts, when workers are killed, frozen, poisoned or blocked (T1–T5)."""

import asyncio
import signal
import time
from collections import Counter
from datetime import timedelta

import pytest

from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.jobs import AttemptOutcome, Job, JobState, Progress
from app.domain.leases import Lease, LeaseBeat
from tests.chaos.behaviours import steps
from tests.chaos.behaviours.environment import LEASE, Environment, open_environment
from tests.chaos.behaviours.processes import eventually
from tests.chaos.behaviours.scenarios import side_by_side
from tests.support.databases import Cloned, Databases
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import Rig, done, fail, release, retry, ring_of, snooze


@side_by_side
async def test_t01_a_killed_workers_job_is_run_again_by_another(databases: Databases) -> None:
    async with open_environment(databases) as environment:
        await steps.killed(environment, again=0.1)


@pytest.mark.slow
@side_by_side
async def test_t01_a_killed_workers_job_of_30_seconds_is_run_again_by_another(databases: Databases) -> None:
    async with open_environment(databases) as environment:
        await steps.killed(environment, again=30)


@side_by_side
async def test_t02_a_worker_that_was_frozen_beyond_its_lease_changes_nothing(databases: Databases) -> None:
    async with open_environment(databases, {"NAMESAKE": "yes"}) as environment:
        await environment.work(2)
        job = await environment.submit(payload={"do": "result", "seconds": [5, 8], "blocking": True})
        first = await environment.mark(job)
        frozen = environment.worker(first)
        frozen.send(signal.SIGSTOP)
        second = await environment.mark(job, attempt=2, within=LEASE + 20)
        assert second.pid != first.pid
        before = await _row(environment, job)
        frozen.send(signal.SIGCONT)
        await environment.mark(job, "end", within=10)
        # Its heart has had two more turns by then.
        await eventually(lambda: frozen.logged("lease_lost") or time.monotonic() > second.at + 4, within=10)
        held = await _row(environment, job)
        assert held[:2] == before[:2], "another worker of that name has the job"
        assert held[2] <= time.time() + LEASE, "its lease is as long as its own beats made it"
        ended = await environment.done(job, within=20)
        assert ended.result == {"attempt": 2, "text": ""}
        assert (ended.attempts, ended.expiries, ended.failures) == (2, 1, 0)
        assert await environment.history(job) == ["expired", "done"]
        assert await environment.fetch("select count(*) from daira.results") == 1
        assert await frozen.metric("daira_leases_lost_total") == 1


async def _row(environment: Environment, job: Job) -> tuple[int, str, float]:
    now = await environment.rig.again(job)
    assert now.lease_until is not None
    assert now.claimed_by is not None
    return now.attempts, now.state, now.lease_until.timestamp()


@side_by_side
async def test_t02_a_result_of_an_attempt_that_is_over_is_refused_and_counted(databases: Databases) -> None:
    """The worker can't know: by its own clock the lease holds. Only the fence is left."""
    async with open_environment(databases, {"NAMESAKE": "yes"}) as environment:
        await environment.work(1, DAIRA_LEASE_SECONDS="600")
        job = await environment.submit(payload={"do": "result", "seconds": [2, 6], "blocking": True})
        stale = environment.worker(await environment.mark(job))
        stale.send(signal.SIGSTOP)
        await environment.fetch("update daira.jobs set lease_until = now() - interval '1 second'")
        await environment.work(1)
        await environment.mark(job, attempt=2)
        stale.send(signal.SIGCONT)
        await eventually(lambda: stale.logged("lease_lost"), within=10)
        assert await stale.metric("daira_fenced_writes_total") == 1
        assert await stale.metric("daira_leases_lost_total") == 1
        assert (await environment.rig.again(job)).state is JobState.CLAIMED
        assert (await environment.done(job, within=20)).result == {"attempt": 2, "text": ""}
        assert await environment.history(job) == ["expired", "done"]


async def test_t02_every_write_of_an_earlier_attempt_by_the_same_name_hits_no_row(
    cloned: Cloned, engine: PostgresEngine
) -> None:
    rig = postgres_rig(cloned, engine)
    job = await rig.enqueue(await rig.tenant())
    stale = await rig.lease(job, worker="namesake")
    await rig.expire(job)
    holder = await rig.lease(job, worker="namesake")
    before = await rig.again(job)
    (beat,) = await rig.leases.beat(
        [LeaseBeat(lease=stale, progress=Progress(done=9, total=9, unit="pages"))], lease=timedelta(hours=1)
    )
    assert not beat.held
    for late in (done, fail, retry, release, snooze):
        assert not await rig.settle(late(stale)), late
        async with rig.database.begin(job.tenant_id) as tx:
            assert not await tx.jobs.settle(late(stale)), late
    assert await rig.again(job) == before
    assert (await rig.beat(holder)).held
    assert await rig.settle(done(holder))


async def _with_a_lease_that_is_over(rig: Rig) -> tuple[Job, Lease]:
    job = await rig.enqueue(await rig.tenant())
    lease = await rig.lease(job)
    await rig.advance(timedelta(hours=1))
    return job, lease


async def test_t03_a_sweep_that_meets_a_completion_leaves_it_done(cloned: Cloned, engine: PostgresEngine) -> None:
    """The sweeper has read `claimed`, lease over; before it writes, the completion commits."""
    rig = postgres_rig(cloned, engine)
    job, lease = await _with_a_lease_that_is_over(rig)
    async with rig.database.begin(job.tenant_id) as tx:
        assert await tx.jobs.settle(done(lease))
        sweeping = asyncio.create_task(rig.sweeps.sweep([job.tenant_id], limit=100))
        # One that waits for the row has read it by now: it is seen waiting, or it has answered.
        await eventually(lambda: _waits_or_has_ended(cloned, sweeping), within=10)
    assert await sweeping == []
    after = await rig.again(job)
    assert (after.state, after.attempts, after.expiries) == (JobState.DONE, 1, 0)
    assert [attempt.outcome for attempt in await rig.attempts(job)] == [AttemptOutcome.DONE]


async def test_t03_a_completion_that_meets_a_sweep_is_refused(cloned: Cloned, engine: PostgresEngine) -> None:
    """The other way round: the sweep was first, its commit comes later."""
    rig = postgres_rig(cloned, engine)
    job, lease = await _with_a_lease_that_is_over(rig)
    async with engine.begin() as connection:
        raw = await connection.get_raw_connection()
        await connection.exec_driver_sql("select 1")
        assert raw.driver_connection is not None
        (swept,) = await raw.driver_connection.fetch("select * from daira.sweep($1, 100)", [job.tenant_id])
        assert swept["expired"]
        settling = asyncio.create_task(rig.settle(done(lease)))
        await eventually(lambda: _waits_or_has_ended(cloned, settling), within=10)
        assert not settling.done()
    assert not await settling
    after = await rig.again(job)
    assert (after.state, after.attempts, after.expiries) == (JobState.QUEUED, 1, 1)


async def _waits_or_has_ended(cloned: Cloned, task: asyncio.Task[object]) -> bool:
    async with administer(cloned.admin_url) as admin:
        waiting = (
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
        return task.done() or bool(await admin.fetchval(waiting))


@side_by_side
async def test_t04_a_job_that_kills_its_workers_is_failed_after_three_and_holds_up_nobody(databases: Databases) -> None:
    async with open_environment(databases) as environment:
        await environment.work(3)
        poison = await environment.submit(payload={"do": "die"})
        echoes = [await environment.submit(payload={}) for _ in range(50)]
        started = time.monotonic()
        supervising = asyncio.create_task(_supervise(environment))
        ends = [await environment.ended(echo, within=60) for echo in echoes]
        took = time.monotonic() - started
        poisoned = await environment.ended(poison, within=60)
        supervising.cancel()
        assert Counter(job.state for job in ends) == {"done": 50}
        assert took < 60
        assert poisoned.state is JobState.FAILED
        assert poisoned.error is not None
        assert poisoned.error.code == "worker_lost"
        assert await environment.history(poison) == ["expired"] * 3
        assert len(environment.marks(poison)) == 3
        assert len([worker for worker in environment.workers if worker.running.poll() == 1]) == 3


@side_by_side
async def test_t04_jobs_that_were_claimed_together_with_the_poison_are_done(databases: Databases) -> None:
    async with open_environment(databases) as environment:
        await environment.work()
        poison, *echoes = [
            await environment.submit(payload=payload, ring=False) for payload in ({"do": "die"}, {}, {}, {})
        ]
        await environment.doorbell.ring([ring_of(job) for job in (poison, *echoes)])
        supervising = asyncio.create_task(_supervise(environment))
        ends = [await environment.ended(job, within=90) for job in (poison, *echoes)]
        supervising.cancel()
        assert [job.state for job in ends] == ["failed", "done", "done", "done"]


async def _supervise(environment: Environment) -> None:
    """As a platform for containers does: a process that ended is started anew."""
    replaced: set[int] = set()
    while True:
        dead = [each for each in environment.workers if each.running.poll() is not None and each.pid not in replaced]
        replaced |= {each.pid for each in dead}
        for _ in dead:
            environment.start()
        await asyncio.sleep(0.1)


@side_by_side
async def test_t05_a_handler_that_blocks_for_three_leases_keeps_its_job(databases: Databases) -> None:
    async with open_environment(databases) as environment:
        await steps.blocked(environment)


@side_by_side
async def test_t05_a_worker_whose_handler_blocks_a_thread_answers_all_along(databases: Databases) -> None:
    async with open_environment(databases) as environment:
        await environment.work()
        job = await environment.submit(payload={"seconds": 35, "blocking": "thread"})
        worker = environment.worker(await environment.mark(job))
        answers = []
        while not environment.marks(job, "end"):
            answers.append((await worker.get("/healthz")).status_code)
            await asyncio.sleep(0.5)
        assert Counter(answers) == {200: len(answers)}
        assert len(answers) > 20
        assert (await environment.done(job, within=10)).attempts == 1
