"""A result and its `done` are one write, and a job of a kind that nobody knows yet waits for who does (T25)."""

import asyncio
import signal
import time

from app.adapters.postgres.engine import administer
from app.domain.jobs import JobState
from tests.chaos.behaviours.environment import LEASE, SWEEP, Environment, open_environment
from tests.chaos.behaviours.processes import eventually
from tests.chaos.behaviours.scenarios import side_by_side
from tests.support.databases import Databases

WRITING = """
select min(pid) from pg_stat_activity join pg_locks using (pid)
where datname = current_database() and usename = 'daira_app' and application_name <> 'daira-behaviours'
  and state = 'idle in transaction' and relation = 'daira.results'::regclass and mode = 'RowExclusiveLock'
"""
"""Process of the server's in whose transaction a result is written, and not committed."""

TORN = """
select count(*) from daira.jobs j full join daira.results r on (r.tenant_id, r.job_id) = (j.tenant_id, j.id)
where (coalesce(j.state, '') = 'done') <> (r.job_id is not null)
"""
"""Done without a result, or a result without done."""


async def _never_torn(environment: Environment) -> None:
    """Looks, until it is cancelled, at what anybody else could see."""
    async with administer(environment.cloned.admin_url) as admin:
        while True:
            assert await admin.fetchval(TORN) == 0
            await asyncio.sleep(0.01)


@side_by_side
async def test_t25_a_connection_killed_between_result_and_commit_leaves_neither_and_then_both(
    databases: Databases,
) -> None:
    async with open_environment(databases) as environment:
        await environment.work()
        looking = asyncio.create_task(_never_torn(environment))
        job = await environment.submit(payload={"do": "result", "text": "kept", "linger": 2})
        writing = await eventually(lambda: environment.fetch(WRITING), within=20)
        assert await environment.fetch("select pg_terminate_backend($1)", writing)
        assert (await environment.rig.again(job)).state is JobState.CLAIMED
        assert await environment.fetch("select count(*) from daira.results") == 0
        done = await environment.done(job, within=20)
        assert (done.attempts, done.failures, done.result) == (1, 0, {"attempt": 1, "text": "kept"})
        assert len(environment.marks(job)) == 1, "the work was not thrown away with the connection"
        await _looked(looking)


@side_by_side
async def test_t25_a_worker_killed_between_result_and_commit_leaves_neither(databases: Databases) -> None:
    async with open_environment(databases) as environment:
        (first,) = await environment.work()
        looking = asyncio.create_task(_never_torn(environment))
        job = await environment.submit(payload={"do": "result", "linger": 5})
        await eventually(lambda: environment.fetch(WRITING), within=20)
        first.send(signal.SIGKILL)
        await environment.work()
        second = await environment.mark(job, attempt=2, within=LEASE + 20)
        assert (await environment.rig.again(job)).result is None
        done = await environment.done(job, within=30)
        assert (done.attempts, done.result) == (2, {"attempt": 2, "text": ""})
        assert second.pid != first.pid
        await _looked(looking)


async def _looked(looking: asyncio.Task[None]) -> None:
    """All the while, and saw nothing."""
    assert not looking.done() or looking.result() is None
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)


@side_by_side
async def test_t25_a_kind_that_only_newer_workers_know_waits_for_them_at_no_cost(databases: Databases) -> None:
    async with open_environment(databases) as environment:
        (older,) = await environment.work()
        job = await environment.submit(kind="novel", payload={"do": "result"}, max_attempts=1)
        await eventually(lambda: older.metric("daira_claims_total", outcome="unknown_kind"), within=20)
        put_off = await environment.rig.again(job)
        assert (put_off.state, put_off.attempts, put_off.failures) == (JobState.QUEUED, 0, 0)
        assert 50 < (put_off.run_after - put_off.created_at).total_seconds() < 90
        # The deploy goes on: a newer worker takes the place of the older, and a minute passes.
        older.send(signal.SIGTERM)
        assert await older.ended(within=20) == 0
        (newer,) = await environment.work(KINDS="novel")
        await environment.fetch("update daira.jobs set run_after = now(), ring_after = now()")
        due = time.monotonic()
        done = await environment.done(job, within=20)
        assert (done.attempts, done.failures, done.result) == (1, 0, {"attempt": 1, "text": ""})
        (ran,) = environment.marks(job)
        assert ran.pid == newer.pid
        assert ran.at - due < SWEEP + 5
