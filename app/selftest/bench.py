"""What the checks share: two tenants of their own, jobs in them, and waiting with a deadline."""

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
"""Seconds."""

ZERO = timedelta()


class CheckFailed(Exception):
    """A check did not see what it should; the text says what it saw."""


def reason(error: BaseException) -> str:
    """In a line; of what a driver has raised and others have wrapped, the first cause."""
    if isinstance(error, (CheckFailed, DairaError)):
        return str(error)
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}".replace("\n", " ")


class SelftestBench:
    def __init__(self, deployment: Deployment, *, patience: timedelta) -> None:
        """`patience`: for a worker to take a job that it was rung for, and again to finish it."""
        self.parts = deployment
        self.patience = patience
        self.tenant = selftest.new_tenant()
        self.other = selftest.new_tenant()
        self.tenants: list[TenantId] = []
        self.blobs: list[str] = []
        """Keys. Both: all that there is of this run, or was about to be."""

    @property
    def recovery(self) -> timedelta:
        """What a sweep may take to find a job, and a worker to do it then."""
        return self.parts.sweep_every + FIRST_RING_GRACE + self.patience

    async def enqueue(
        self,
        *,
        tenant: TenantId | None = None,
        run_in: timedelta = ZERO,
        seconds: float = 0,
        blob: DocumentId | None = None,
    ) -> Job:
        """Committed, and not rung."""
        payload = {"seconds": seconds, "blob": blob and str(blob)}
        new = NewJob(id=JobId(uuid7()), kind=selftest.KIND, payload=payload, run_in=run_in)
        async with self.parts.database.begin(tenant or self.tenant) as tx:
            job = await tx.jobs.add(new)
        assert job is not None, "it has no dedup key"
        return job

    async def ring(self, job: Job) -> Job:
        await self.parts.doorbell.ring([ring_of(job)])
        return job

    def blob(self) -> tuple[DocumentId, str]:
        """An id of this run, and its key."""
        blob = DocumentId(uuid7())
        self.blobs.append(blob_key(self.tenant, blob))
        return blob, self.blobs[-1]

    async def now(self, job: Job) -> Job:
        """The job as it is now."""
        async with self.parts.database.begin(job.tenant_id) as tx:
            found = await tx.jobs.get(job.id)
        if found is None:
            raise CheckFailed("the job is gone")
        return found

    async def history(self, job: Job) -> list[Attempt]:
        async with self.parts.database.begin(job.tenant_id) as tx:
            return await tx.jobs.attempts(job.id)

    async def until(self, job: Job, condition: Callable[[Job], bool], *, within: timedelta) -> Job:
        """The job, as soon as the condition holds. Raises Failed, saying how it stands, when the time is over."""
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
        """The job is done, by these attempts and with the result of the last, which is returned."""
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
