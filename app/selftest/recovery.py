"""Checks of recovery: another worker does a lost worker's job, and the lost one's writes are refused."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from app.domain.doorbells import Ring
from app.domain.errors import DairaError
from app.domain.jobs import Attempt, AttemptOutcome, Job, JobError, JobState
from app.domain.leases import Lease, LeaseBeat, Settlement
from app.domain.selftest import KIND
from app.selftest.bench import CheckFailed, SelftestBench, error_text, ring_of

LEASE = timedelta(seconds=1)
"""The lease of the selftest's own claims: short, so that it expires soon. Other workers' leases are not affected."""

TRIES = 5
"""Tries for a claim of the selftest's own: an idle worker that looks for lost doorbells may be faster."""

STALE = JobError(code="internal", message="written by a worker that had lost its lease")


async def killed_worker(bench: SelftestBench) -> str:
    """A job whose worker is killed is done by another, once."""
    async with bench.parts.doomed() as victim:
        job = await _claimed_by(lambda ring: victim.claim(ring, lease=LEASE), bench)
        await victim.kill()
    job = await bench.ended(job, within=LEASE + bench.recovery)
    last = await _check_recovered(bench, job)
    return f"its lease ran out, {last.worker} took the job {await _recovery_seconds(bench, job):.1f} s later and did it"


async def stale_writer(bench: SelftestBench) -> str:
    """A worker that has lost its lease can write nothing."""
    job = await _claimed_by(lambda ring: _claim(bench, ring), bench, seconds=2)
    stale = Lease(tenant_id=job.tenant_id, job_id=job.id, attempt=1)
    await bench.until(job, lambda now: now.attempts > stale.attempt, within=LEASE + bench.recovery)
    await _check_refused(bench, stale, when="while another worker had the job")
    job = await bench.ended(job, within=bench.recovery)
    await _check_refused(bench, stale, when="after another worker had done the job")
    await _check_recovered(bench, await bench.now(job))
    return "beat, settle and result refused, while another had the job and when it was done"


async def _claim(bench: SelftestBench, ring: Ring) -> bool:
    claims = await bench.parts.leases.claim([ring], worker="selftest", lease=LEASE, kinds=frozenset({KIND}))
    return claims[0].job is not None


async def _claimed_by(claim: Callable[[Ring], Awaitable[bool]], bench: SelftestBench, *, seconds: float = 0) -> Job:
    for _ in range(TRIES):
        job = await bench.enqueue(seconds=seconds)
        if await claim(ring_of(job)):
            return job
    raise CheckFailed(f"a worker claimed the job before the selftest could, {TRIES} times; run it again")


async def _check_refused(bench: SelftestBench, stale: Lease, *, when: str) -> None:
    attempts = {"result": _write_result, "beat": _beat, "settle": _settle}
    for name, write in attempts.items():
        try:
            refused = not await write(bench, stale)
        except DairaError:
            raise
        except Exception as error:
            # The fence must refuse. A unique key behind it raises, but protects only tables that have one.
            raise CheckFailed(f"a {name} with a lost lease got past the fence {when}: {error_text(error)}") from error
        if not refused:
            raise CheckFailed(f"a {name} with a lost lease was accepted {when}; the fence does not hold")


async def _write_result(bench: SelftestBench, stale: Lease) -> bool:
    accepted = False
    with suppress(_TakenBackError):
        async with bench.parts.database.begin(stale.tenant_id) as tx:
            accepted = await tx.jobs.settle(_settlement(stale, JobState.DONE)) is not None
            raise _TakenBackError
    return accepted


async def _beat(bench: SelftestBench, stale: Lease) -> bool:
    (beat,) = await bench.parts.leases.beat([LeaseBeat(lease=stale)], lease=LEASE)
    return beat.held


async def _settle(bench: SelftestBench, stale: Lease) -> bool:
    (accepted,) = await bench.parts.leases.settle([_settlement(stale, JobState.FAILED)])
    return accepted is not None


class _TakenBackError(Exception):
    """Rolls a transaction back after its write was tried, so that nothing is changed."""


def _settlement(lease: Lease, state: JobState) -> Settlement:
    outcome = AttemptOutcome.DONE if state is JobState.DONE else AttemptOutcome.FAIL
    return Settlement(lease=lease, state=state, outcome=outcome, error=None if state is JobState.DONE else STALE)


async def _check_recovered(bench: SelftestBench, job: Job) -> Attempt:
    last = await bench.check_history(job, [AttemptOutcome.EXPIRED, AttemptOutcome.DONE])
    if (job.expiries, job.failures, job.error) != (1, 0, None):
        raise CheckFailed(f"the job counts {job.expiries} expired leases and {job.failures} failures, not 1 and 0")
    return last


async def _recovery_seconds(bench: SelftestBench, job: Job) -> float:
    """Return the seconds from the end of the lost lease to the second claim, by the database's clock."""
    lost, taken = await bench.history(job)
    return (taken.started_at - lost.started_at - LEASE).total_seconds()
