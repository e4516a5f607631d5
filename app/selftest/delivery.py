"""Checks of delivery: jobs that are rung, not rung, rung too often, and cancelled."""

import time
from datetime import timedelta

from app.domain.jobs import AttemptOutcome, Job, JobState
from app.selftest.bench import CheckFailed, SelftestBench

TIMES = 3
"""Jobs one after another. A sweep may find one job at the moment of its ring, but not all of them."""

SLOW = 0.5
"""Seconds. A doorbell is answered within some ms; a worker without one finds the job a second later at the earliest."""

BELLS = 20

SHORT = timedelta(seconds=1)
"""The length of the job that is rung too often: rings come before it, while it runs, and after it."""

LONG = timedelta(seconds=20)
"""The length of the job that is cancelled; a beat comes with each second of its progress."""


async def delivery(bench: SelftestBench) -> str:
    """A job that is committed and rung is done by a worker."""
    done = [await _delivered(bench) for _ in range(TIMES)]
    (*_, last) = [await bench.check_history(job, [AttemptOutcome.DONE]) for job in done]
    pickup = max(_pickup(job) for job in done)
    seen = f"picked up within {pickup * 1000:.0f} ms, done by {last.worker}"
    if pickup < SLOW:
        return seen
    return f"{seen}: slow. All slots are busy, or DAIRA_QUEUE_URL differs from the workers' and no doorbell arrives"


async def lost_bell(bench: SelftestBench) -> str:
    """A job whose bell was never rung is found and done."""
    job = await bench.ended(await bench.enqueue(), within=bench.recovery)
    await bench.check_history(job, [AttemptOutcome.DONE])
    return f"found after {_pickup(job):.1f} s, without a bell"


async def duplicate_bells(bench: SelftestBench) -> str:
    """A job that is rung twenty times runs once."""
    job = await bench.enqueue(seconds=SHORT.total_seconds())
    for _ in range(BELLS // 2):
        await bench.ring(job)
    job = await bench.ended(job, within=SHORT + bench.patience)
    for _ in range(BELLS // 2):
        await bench.ring(job)
    # A job that is rung after them is answered after them, or nearly so.
    await _delivered(bench)
    await bench.check_history(await bench.now(job), [AttemptOutcome.DONE])
    return f"{BELLS} bells, one attempt"


async def cancel(bench: SelftestBench) -> str:
    """A running job that is cancelled stops with the next beat."""
    job = await bench.ring(await bench.enqueue(seconds=LONG.total_seconds()))
    await bench.until(job, lambda now: now.state is JobState.CLAIMED, within=bench.patience)
    asked_at = time.monotonic()
    async with bench.parts.database.begin(job.tenant_id) as tx:
        await tx.jobs.cancel(job.id)
    job = await bench.ended(job, within=LONG + bench.patience)
    outcomes = [attempt.outcome for attempt in await bench.history(job)]
    if (job.state, outcomes) != (JobState.CANCELLED, [AttemptOutcome.CANCELLED]):
        raise CheckFailed(f"the job is {job.state}, not cancelled; its history: {', '.join(outcomes)}")
    return f"stopped {time.monotonic() - asked_at:.1f} s after it was asked to"


async def _delivered(bench: SelftestBench) -> Job:
    job = await bench.ring(await bench.enqueue())
    try:
        return await bench.ended(job, within=bench.patience)
    except CheckFailed:
        job = await bench.now(job)
        if job.attempts or job.run_after > job.created_at:
            raise
        within = f"{bench.patience.total_seconds():g} s"
        question = "is one running, with lane ocr and a free slot?"
        raise CheckFailed(f"no worker took the job within {within}: {question}") from None


def _pickup(job: Job) -> float:
    """Return the seconds from due to claimed, by the database's clock."""
    assert job.started_at is not None, "it is done"
    return (job.started_at - job.run_after).total_seconds()
