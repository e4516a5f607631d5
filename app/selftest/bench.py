"""Tools of the checks: two tenants of the selftest's own, jobs in them, and waiting with a deadline."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from app.domain import selftest
from app.domain.documents import blob_key
from app.domain.doorbells import Ring
from app.domain.errors import DairaError
from app.domain.ids import DocumentId, JobId, TenantId, uuid7
from app.domain.jobs import FIRST_RING_GRACE, Attempt, AttemptOutcome, Job, JobState, NewJob
from app.selftest.deployment import Deployment

FIRST_LOOK = 0.02
LONGEST_BETWEEN_LOOKS = 0.25
"""Seconds between two looks at a job."""

ZERO = timedelta()


class CheckFailed(Exception):
    """Raised by a check that has failed; the text says what it saw."""


def error_text(error: BaseException) -> str:
    """Return the error in one line; of a chain of causes, the first one."""
    if isinstance(error, (CheckFailed, DairaError)):
        return str(error)
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}".replace("\n", " ")


class SelftestBench:
    def __init__(self, deployment: Deployment, *, patience: timedelta) -> None:
        """`patience` is the time for a worker to take a job after its ring, and again to finish it."""
        self.parts = deployment
        self.patience = patience
        self.tenant = selftest.new_tenant()
        self.other = selftest.new_tenant()
        self.tenants: list[TenantId] = []
        self.blobs: list[str] = []
        """Keys of blobs. Tenants and keys are noted before they are made, so that all of them are removed."""

    @property
    def recovery(self) -> timedelta:
        """The time for a sweep to find a job and for a worker to do it then."""
        return self.parts.sweep_every + FIRST_RING_GRACE + self.patience

    async def enqueue(
        self,
        *,
        tenant: TenantId | None = None,
        run_in: timedelta = ZERO,
        seconds: float = 0,
        blob: DocumentId | None = None,
    ) -> Job:
        """Commit a job without a ring."""
        payload = {"seconds": seconds, "blob": blob and str(blob)}
        async with self.parts.database.begin(tenant or self.tenant) as tx:
            new = NewJob(id=JobId(tx.new_id()), kind=selftest.KIND, payload=payload, run_in=run_in)
            job = await tx.jobs.add(new)
        assert job is not None, "it has no dedup key"
        return job

    async def ring(self, job: Job) -> Job:
        await self.parts.doorbell.ring([ring_of(job)])
        return job

    def blob(self) -> tuple[DocumentId, str]:
        """Return a new blob's id, and its key."""
        blob = DocumentId(uuid7())
        self.blobs.append(blob_key(self.tenant, blob))
        return blob, self.blobs[-1]

    async def now(self, job: Job) -> Job:
        """Read the job anew. Raises CheckFailed if it is gone."""
        async with self.parts.database.begin(job.tenant_id) as tx:
            found = await tx.jobs.get(job.id)
        if found is None:
            raise CheckFailed("the job is gone")
        return found

    async def history(self, job: Job) -> list[Attempt]:
        async with self.parts.database.begin(job.tenant_id) as tx:
            return await tx.jobs.attempts(job.id)

    async def until(self, job: Job, condition: Callable[[Job], bool], *, within: timedelta) -> Job:
        """Return the job when the condition holds. Raises CheckFailed with its state after `within`."""
        deadline = time.monotonic() + within.total_seconds()
        pause = FIRST_LOOK
        while not condition(job := await self.now(job)):
            if time.monotonic() > deadline:
                raise CheckFailed(_as_it_stands(job, after=within))
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LONGEST_BETWEEN_LOOKS)
        return job

    async def ended(self, job: Job, *, within: timedelta) -> Job:
        return await self.until(job, lambda now: now.state.terminal, within=within)

    async def check_history(self, job: Job, outcomes: Sequence[AttemptOutcome]) -> Attempt:
        """Check that the job is done by these attempts, with the last one's result. Returns the last attempt."""
        history = await self.history(job)
        seen = [attempt.outcome for attempt in history]
        if (job.state, job.attempts, seen) != (JobState.DONE, len(outcomes), list(outcomes)):
            raise CheckFailed(f"the job is {job.state} after {job.attempts} attempt(s), its history: {', '.join(seen)}")
        by = job.result.get("attempt") if isinstance(job.result, dict) else None
        if by != job.attempts:
            raise CheckFailed(f"its result is that of attempt {by}, not of {job.attempts}")
        return history[-1]


def ring_of(job: Job, *, tenant: TenantId | None = None) -> Ring:
    return Ring(tenant or job.tenant_id, job.id)


def _as_it_stands(job: Job, *, after: timedelta) -> str:
    seconds = f"{after.total_seconds():g} s"
    if job.state is JobState.CLAIMED:
        return f"the job is still claimed by {job.claimed_by} after {seconds}, in attempt {job.attempts}"
    if job.state is JobState.QUEUED and job.run_after > job.created_at and not job.attempts:
        return f"the workers that answer don't know the job kind {job.kind}: they are of an older version"
    return f"the job is still {job.state} after {seconds}, {job.attempts} attempt(s) so far"
