"""The planned jobs arrive: each is committed when its time comes, rung or not, and cancelled if that is planned.

As a client does it: told that the database is away, try again until it is known what became of the request.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from app.adapters.postgres.faults import postgres_reachable
from app.domain.doorbells import Ring
from app.domain.errors import Unavailable
from app.domain.ids import JobId
from app.domain.jobs import JobState, NewJob
from app.ports.database import Database
from app.ports.doorbell import Doorbell
from tests.chaos.load import Planned

T = TypeVar("T")

CLIENTS = 4
"""At a time: on a busy machine one alone falls behind the plan."""


async def insist(act: Callable[[], Awaitable[T]]) -> T:
    """Again and again, while the database or the queue is away; whoever asks has the deadline."""
    while True:
        try:
            with postgres_reachable():
                return await act()
        except Unavailable:
            await asyncio.sleep(0.2)


@dataclass(kw_only=True)
class Arrivals:
    plan: Sequence[Planned]
    database: Database
    doorbell: Doorbell
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    """To be set when no more shall arrive."""
    committed: list[Planned] = field(default_factory=list)
    equals: int = 0
    """Jobs refused, because an equal one was queued or claimed."""
    cancelled: dict[JobId, int] = field(default_factory=dict)
    """Jobs whose cancel was answered with `cancelled`, and how many attempts they had had."""

    async def run(self) -> None:
        """Until all have arrived and all that are to be cancelled have been asked to."""
        started = time.monotonic()
        async with asyncio.TaskGroup() as arriving:
            for client in range(CLIENTS):
                arriving.create_task(self._arrive(self.plan[client::CLIENTS], started=started, requests=arriving))

    async def _arrive(self, plan: Sequence[Planned], *, started: float, requests: asyncio.TaskGroup) -> None:
        for job in plan:
            await asyncio.sleep(max(0, started + job.at - time.monotonic()))
            if self.enough.is_set():
                break
            if not await self._commit(job):
                self.equals += 1
                continue
            self.committed.append(job)
            if job.rung:
                await self._ring(job)
            if job.cancel_in is not None:
                requests.create_task(self._cancel(job, job.cancel_in))

    async def _commit(self, job: Planned) -> bool:
        async def commit() -> bool:
            async with self.database.begin(job.tenant) as tx:
                # An answer that was lost may have been a yes.
                return await tx.jobs.get(job.job_id) is not None or await tx.jobs.add(_new(job)) is not None

        return await insist(commit)

    async def _ring(self, job: Planned) -> None:
        try:
            await self.doorbell.ring([Ring(job.tenant, job.job_id)])
        except Unavailable:
            return  # as in the product: the row is there, the sweeper rings

    async def _cancel(self, job: Planned, seconds: float) -> None:
        async def cancel() -> None:
            async with self.database.begin(job.tenant) as tx:
                answer = await tx.jobs.cancel(job.job_id)
            assert answer is not None, f"job {job.job_id} is gone"
            cancelled, _ = answer
            if cancelled.state is JobState.CANCELLED:
                self.cancelled[job.job_id] = cancelled.attempts

        await asyncio.sleep(seconds)
        await insist(cancel)


def _new(job: Planned) -> NewJob:
    return NewJob(
        id=job.job_id,
        kind=job.kind,
        payload=job.payload,
        dedup_key=job.dedup_key,
        run_in=timedelta(seconds=job.run_in),
        max_attempts=job.max_attempts,
    )
