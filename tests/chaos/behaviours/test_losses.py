"""The database goes away under the workers, or their listeners' connections: they stay, nothing is lost (T15, T16)."""

# ruff: noqa: ARG001 - every scenario is given the databases; some bring a server of their own

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from app.adapters.postgres.doorbell import PING_EVERY, PING_TIMEOUT, POLL
from app.domain.jobs import Job
from tests.chaos.behaviours.environment import ACME, LEASE, Environment, open_environment
from tests.chaos.behaviours.processes import Worker, eventually
from tests.chaos.behaviours.scenarios import side_by_side
from tests.chaos.servers import OwnServer
from tests.chaos.test_outages import own_server
from tests.support.databases import Databases
from tests.support.rig import ring_of

LISTENER = """
select min(pid) from pg_stat_activity where datname = current_database() and application_name = 'daira-listen'
"""


_MIGRATING = asyncio.Lock()
"""Alembic keeps its state for the process: two migrations at a time would mix theirs."""


@asynccontextmanager
async def _own_server() -> AsyncIterator[OwnServer]:
    async with AsyncExitStack() as stack:
        async with _MIGRATING:
            server = await stack.enter_async_context(own_server())
        yield server


async def _listener(environment: Environment, *, other_than: int = 0) -> int:
    """Process of the server's that speaks to the worker's listener, once it is another one."""
    pid: int = await eventually(lambda: environment.fetch(f"{LISTENER} and pid <> $1", other_than), within=60)
    return pid


async def _started(environment: Environment) -> float:
    """Seconds from the bell of a new job to its start."""
    job = await environment.submit(payload={}, ring=False)
    rung = time.monotonic()
    await environment.doorbell.ring([ring_of(job)])
    return (await environment.mark(job)).at - rung


@side_by_side
async def test_t15_a_worker_whose_listener_is_killed_starts_the_next_job_within_five_seconds(
    databases: Databases,
) -> None:
    async with open_environment(databases, {"DAIRA_SWEEP_SECONDS": "60"}) as environment:
        await environment.work()
        listener = await _listener(environment)
        assert await environment.fetch("select pg_terminate_backend($1)", listener)
        assert await _started(environment) < 5
        await _listener(environment, other_than=listener)
        count = "select count(*) from pg_stat_activity where datname = current_database() and application_name = $1"
        assert await environment.fetch(count, "daira-listen") == 1, "one came back, for the one that was lost"


@pytest.mark.slow
@side_by_side
async def test_t15_a_worker_whose_listener_hears_nothing_more_starts_the_next_job_by_a_ping_and_a_poll(
    databases: Databases,
) -> None:
    async with _own_server() as server, open_environment(server.cloned, {"DAIRA_SWEEP_SECONDS": "60"}) as environment:
        await environment.work()
        listener = await _listener(environment)
        os.kill(listener, signal.SIGSTOP)
        try:
            assert await _started(environment) < PING_EVERY + PING_TIMEOUT + POLL.total_seconds()
            await _listener(environment, other_than=listener)
            assert await _started(environment) < 5
        finally:
            os.kill(listener, signal.SIGCONT)


RUNNING, QUEUED, SLOTS = 20, 200, 12
"""More slots than running jobs, or no consumer would ask for work while the database is away."""

DUE_IN = timedelta(seconds=5)
"""For the queued ones: later than the database goes, or they would take the slots that are left."""


@side_by_side
async def test_t16_a_restart_of_the_database_loses_no_job_and_ends_no_worker(databases: Databases) -> None:
    async with _own_server() as server, _busy(server) as environment:
        running, queued = await _at_work(environment, seconds=[6, 0.1])
        await _restart(environment, server, away=0)
        jobs = [await environment.done(job, within=2 * LEASE + 20) for job in (*running, *queued)]
        await _nothing_lost(environment, jobs)


@pytest.mark.slow
@pytest.mark.timeout(300)
@side_by_side
async def test_t16_forty_seconds_without_the_database_cost_each_running_job_one_attempt(databases: Databases) -> None:
    async with _own_server() as server, _busy(server) as environment:
        running, queued = await _at_work(environment, seconds=[40, 0.1])
        await _restart(environment, server, away=40)
        jobs = [await environment.done(job, within=2 * LEASE + 20) for job in (*running, *queued)]
        await _nothing_lost(environment, jobs)
        for job in running:
            assert await environment.history(job) == ["expired", "done"]
            assert len(environment.marks(job)) == 2
            assert len(environment.marks(job, "stopped")) == 1, "its worker stopped it, for it might run elsewhere"


def _busy(server: OwnServer) -> AbstractAsyncContextManager[Environment]:
    return open_environment(server.cloned, {"DAIRA_LANES": f"ocr={SLOTS}"})


async def _at_work(environment: Environment, *, seconds: list[float]) -> tuple[list[Job], list[Job]]:
    await environment.work(2)
    running = [await environment.submit(payload={"seconds": seconds, "do": "result"}) for _ in range(RUNNING)]
    await eventually(lambda: len(environment.marks()) == RUNNING, within=10)
    queued = await asyncio.gather(
        *(environment.rig.enqueue(ACME, payload={"do": "result"}, run_in=DUE_IN) for _ in range(QUEUED))
    )
    await environment.doorbell.ring([ring_of(job) for job in queued], delay=DUE_IN)
    return running, queued


async def _restart(environment: Environment, server: OwnServer, *, away: float) -> None:
    """A fast shutdown, and a start after so many seconds."""
    file = await environment.fetch("select pg_read_file('postmaster.pid')")
    postmaster = int(file.split(maxsplit=1)[0])
    os.kill(postmaster, signal.SIGINT)
    await eventually(lambda: not Path(f"/proc/{postmaster}").exists(), within=60)
    down = time.monotonic()
    for worker in environment.workers:
        await eventually(partial(_answers, worker, 503), within=15)
        assert (await worker.get("/healthz")).status_code == 200
    await asyncio.sleep(max(0, down + away - time.monotonic()))
    await server.start()
    for worker in environment.workers:
        await eventually(partial(_answers, worker, 200), within=15)
        assert worker.running.poll() is None


async def _answers(worker: Worker, status: int) -> bool:
    return await worker.ready() == status


async def _nothing_lost(environment: Environment, jobs: list[Job]) -> None:
    """Each done once, with one result; run again at most once, and then because its lease had ended."""
    assert await environment.fetch("select count(*) from daira.results") == RUNNING + QUEUED
    assert await environment.fetch("select count(*) from daira.job_attempts where outcome = 'done'") == RUNNING + QUEUED
    assert max(job.attempts for job in jobs) <= 2
    executions = Counter(mark.job for mark in environment.marks())
    for job in jobs:
        assert (job.failures, job.releases) == (0, 0)
        assert job.attempts == 1 + job.expiries
        assert executions[str(job.id)] <= job.attempts
    assert await environment.fetch("select count(*) from daira.jobs where state = 'claimed'") == 0
