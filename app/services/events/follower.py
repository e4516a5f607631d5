"""A follower's queue of job changes that were reported and not yet taken, bounded however slow the reader is."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.changes import Position
from app.domain.ids import JobId
from app.domain.jobs import Job, Progress

MOST_UNTAKEN = 500
"""Jobs that wait for a slow reader, each in its latest state. Beyond this the reader must query the database itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedChanges:
    """The changes since the last call of `listen`."""

    jobs: Sequence[Job]
    """The changed jobs in the order of their changes, each in its latest state."""
    progress: Mapping[JobId, Progress]
    since: Position | None
    """The position where the previous changes ended. None if it is unknown, because another server has taken over."""
    upto: Position
    missed: bool
    """True if there were more changes than are kept; `jobs` is then empty."""
    look: bool
    """True if the job may have changed in a way that no change reports, such as a deletion."""


class Subscription:
    def __init__(self, job_id: JobId | None, *, progress: bool) -> None:
        """Follow one job, or with None all of the tenant's. `progress` asks for reports of progress as well."""
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
        """Return the position from which changes are reported; None after `at_most` seconds or if the service stops.

        Raises Unavailable if the database can't be reached.
        """
        if not self._joined.done():
            await first_done(self._joined, stopping.wait(), at_most=at_most)
        return self._joined.result() if self._joined.done() else None

    async def listen(self, *, at_most: float, stopping: asyncio.Event) -> ReceivedChanges | None:
        """Return the next changes as soon as there are some; None after `at_most` seconds or if the service stops."""
        if not self._something.is_set():
            await first_done(self._something.wait(), stopping.wait(), at_most=at_most)
        return self._take() if self._something.is_set() else None

    def join(self, position: Position) -> None:
        """Begin to report changes from this position on."""
        self._since = self._upto = position
        if not self._joined.done():
            self._joined.set_result(position)

    def refuse(self, error: Exception) -> None:
        if not self._joined.done():
            self._joined.set_exception(error)
            # Mark it as retrieved: a reader that has stopped waiting never asks for it.
            self._joined.exception()

    def tell(self, jobs: Sequence[Job]) -> None:
        """Add a page of changed jobs. They can be taken once the whole window was reported, see `reach`."""
        for job in jobs:
            if self.job_id in {None, job.id}:
                self._something.clear()
                # Moved to the end, because it is the latest change. Its earlier progress no longer holds.
                self._jobs.pop(job.id, None)
                self._progress.pop(job.id, None)
                self._jobs[job.id] = job
        if len(self._jobs) > MOST_UNTAKEN:
            self._jobs.clear()
            self._missed = True

    def reach(self, upto: Position) -> None:
        """Note that all changes up to this position were reported."""
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
        """Restart at this position, because the store no longer knows the old one."""
        self._jobs.clear()
        self._progress.clear()
        self._since, self._upto, self._missed = None, position, False
        self._something.set()

    def look(self) -> None:
        self._look = True
        self._something.set()

    def _take(self) -> ReceivedChanges:
        changes = ReceivedChanges(
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
        return changes


async def first_done(*awaited: Coroutine[Any, Any, object] | asyncio.Future[Any], at_most: float) -> None:
    """Wait until one is done, or for `at_most` seconds. Then coroutines are cancelled and futures are not."""
    waits = [
        asyncio.shield(each) if isinstance(each, asyncio.Future) else asyncio.create_task(each) for each in awaited
    ]
    try:
        await asyncio.wait(waits, timeout=max(0, at_most), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
