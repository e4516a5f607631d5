"""Who follows a tenant's jobs: what was told and not yet taken, bounded whatever the reader does."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.changes import Position
from app.domain.ids import JobId
from app.domain.jobs import Job, Progress

MOST_UNTAKEN = 500
"""Jobs that wait for a slow reader, each in its latest state. Beyond, the reader looks for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedChanges:
    """What was told since the last time."""

    jobs: Sequence[Job]
    """In the order of their changes, each as it is now."""
    progress: Mapping[JobId, Progress]
    since: Position | None
    """Up to where everything was heard before; None: nobody knows, the store is another one."""
    upto: Position
    missed: bool
    """There was more between the two than could be kept: `jobs` is empty."""
    look: bool
    """Something may have become of the job that no change tells."""


class Follower:
    def __init__(self, job_id: JobId | None, *, progress: bool) -> None:
        """`job_id`: of this job alone. `progress`: tell that as well."""
        self.job_id = job_id
        self.wants_progress = progress
        self._joined: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        self._jobs: dict[JobId, Job] = {}
        self._progress: dict[JobId, Progress] = {}
        self._since: Position | None = None
        self._upto = Position("")
        self._missed = False
        self._look = False
        self._something = asyncio.Event()

    async def ready(self, *, at_most: float, stopping: asyncio.Event) -> Position | None:
        """From where on it is told; None when the time (seconds) is over or the service stops.

        Raises Unavailable where the database can't be reached.
        """
        if not self._joined.done():
            await first_of(self._joined, stopping.wait(), at_most=at_most)
        return self._joined.result() if self._joined.done() else None

    async def listen(self, *, at_most: float, stopping: asyncio.Event) -> ReceivedChanges | None:
        """As soon as there is something; None when the time (seconds) is over or the service stops."""
        if not self._something.is_set():
            await first_of(self._something.wait(), stopping.wait(), at_most=at_most)
        return self._take() if self._something.is_set() else None

    def join(self, position: Position) -> None:
        """From here on."""
        self._since = self._upto = position
        if not self._joined.done():
            self._joined.set_result(position)

    def refuse(self, error: Exception) -> None:
        if not self._joined.done():
            self._joined.set_exception(error)
            # Whoever has stopped waiting for it does not ask any more.
            self._joined.exception()

    def tell(self, jobs: Sequence[Job]) -> None:
        """A page of what has changed. It can be taken when the whole window has been told: see `reach`."""
        for job in jobs:
            if self.job_id in {None, job.id}:
                self._something.clear()
                # Last, for it is the latest; and what it had reached before is no longer true.
                self._jobs.pop(job.id, None)
                self._progress.pop(job.id, None)
                self._jobs[job.id] = job
        if len(self._jobs) > MOST_UNTAKEN:
            self._jobs.clear()
            self._missed = True

    def reach(self, upto: Position) -> None:
        """All up to here has been told."""
        self._upto = upto
        if self._jobs or self._missed or self._progress or self._look:
            self._something.set()

    def tell_progress(self, progress: Mapping[JobId, Progress]) -> None:
        if not self.wants_progress:
            return
        for job_id, reached in progress.items():
            if self.job_id in {None, job_id} and (job_id in self._progress or len(self._progress) < MOST_UNTAKEN):
                self._progress[job_id] = reached
                self._something.set()

    def begin_anew(self, position: Position) -> None:
        """The store knows the old position no more."""
        self._jobs.clear()
        self._progress.clear()
        self._since, self._upto, self._missed = None, position, False
        self._something.set()

    def look(self) -> None:
        self._look = True
        self._something.set()

    def _take(self) -> ReceivedChanges:
        heard = ReceivedChanges(
            jobs=[] if self._missed else list(self._jobs.values()),
            progress=dict(self._progress),
            since=self._since,
            upto=self._upto,
            missed=self._missed,
            look=self._look,
        )
        self._jobs.clear()
        self._progress.clear()
        self._since, self._missed, self._look = self._upto, False, False
        self._something.clear()
        return heard


async def first_of(*awaited: Coroutine[Any, Any, object] | asyncio.Future[Any], at_most: float) -> None:
    """Until one of them is done, or the time (seconds) is over. Coroutines are given up then; futures are not."""
    waits = [
        asyncio.shield(each) if isinstance(each, asyncio.Future) else asyncio.create_task(each) for each in awaited
    ]
    try:
        await asyncio.wait(waits, timeout=max(0, at_most), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
