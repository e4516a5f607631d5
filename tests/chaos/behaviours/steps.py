"""Behaviours that hold with a pooler in between as without: each is run in either setting."""

import asyncio
import signal
import time

from app.domain.ids import JobId
from tests.chaos.behaviours.environment import LEASE, SWEEP, Environment
from tests.chaos.behaviours.processes import eventually, total
from tests.support.rig import ring_of


async def killed(environment: Environment, *, again: float) -> None:
    """T1: one of two workers is killed in the middle of a job."""
    await environment.work(2)
    job = await environment.submit(payload={"seconds": [30, again], "do": "result"})
    first = await environment.mark(job)
    killed = environment.worker(first)
    # In the middle: some beats have renewed the lease.
    await eventually(lambda: _renewed(environment, job.id), within=LEASE)
    killed.send(signal.SIGKILL)
    assert await killed.ended(within=10) == -signal.SIGKILL
    died = time.monotonic()
    second = await environment.mark(job, attempt=2, within=LEASE + SWEEP + 20)
    assert second.at - died <= LEASE + SWEEP + 2
    assert second.pid != first.pid
    done = await environment.done(job, within=again + 20)
    assert (done.attempts, done.expiries, done.failures) == (2, 1, 0)
    assert done.result == {"attempt": 2, "text": ""}
    assert await environment.history(job) == ["expired", "done"]
    expired, _ = await environment.rig.attempts(job)
    (started,) = killed.logged("worker_started")
    assert expired.worker == started["worker"]
    assert expired.error is not None
    assert expired.error.code == "worker_lost"
    assert len(environment.marks(job)) == 2


async def _renewed(environment: Environment, job_id: JobId) -> bool:
    over = "select lease_until - started_at > make_interval(secs => $2) from daira.jobs where id = $1"
    return bool(await environment.fetch(over, job_id, LEASE + 1.0))


async def blocked(environment: Environment) -> None:
    """T5: the loop of a worker stands still for three leases and a half."""
    await environment.work(2)
    job = await environment.submit(payload={"seconds": 35, "blocking": True})
    await environment.mark(job)
    leases = set()
    while not environment.marks(job, "end"):
        leases.add((await environment.rig.again(job)).lease_until)
        await asyncio.sleep(0.3)
    done = await environment.done(job, within=20)
    assert (done.attempts, done.expiries) == (1, 0)
    assert len(environment.marks(job)) == 1
    assert len(leases - {None}) > 8, "the lease as claimed, and as eight beats made it"


BELLS = 50


async def rung_again_and_again(environment: Environment) -> None:
    """T9: four workers answer fifty bells of one job, before, while and after it runs."""
    workers = await environment.work(4)
    job = await environment.submit(payload={"seconds": 1, "do": "result"}, ring=False)
    # One after the other, for a queue may keep one bell for a job, however often it is rung.
    while await total(workers, "daira_doorbells_total", event="received") < BELLS:
        for _ in range(10):
            await environment.doorbell.ring([ring_of(job)])
    done = await environment.done(job, within=30)
    assert done.attempts == 1

    async def answered() -> bool:
        return await total(workers, "daira_claims_total") >= BELLS

    await eventually(answered, within=30)
    assert await total(workers, "daira_claims_total", outcome="claimed") == 1
    assert len(environment.marks(job)) == 1
