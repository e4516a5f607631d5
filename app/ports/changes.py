"""What has changed in a tenant's jobs, without a log of it: positions in the order of commits."""

from collections.abc import Collection, Mapping
from typing import Protocol

from app.domain.changes import News, Position, Standing, Window
from app.domain.ids import JobId
from app.domain.jobs import JobState, Progress


class Changes(Protocol):
    """A change is one of a job's state, a new job's among them; progress is none, and neither is a deletion."""

    async def now(self) -> Position:
        """What is committed by now is seen from here, and nothing else."""
        ...

    async def within(self, window: Window, *, of: Collection[JobId] | None = None, limit: int) -> News | None:
        """The jobs that changed, each once; `of` these alone. None: the window begins at no position of this store.

        A job that has changed again, after the window, may be left out: it is in the next one. A page may have fewer
        jobs than the limit, or none, and not be the last.
        """
        ...

    async def standing(
        self, *, upto: Position, of: Collection[JobId] | None = None, after: JobId | None = None, limit: int
    ) -> Standing:
        """The live jobs, or those named, without those whose change is not seen from `upto`."""
        ...

    async def running(self, *, of: Collection[JobId] | None = None) -> Mapping[JobId, Progress]:
        """The progress of claimed jobs that have told some."""
        ...

    async def states(self, job_ids: Collection[JobId]) -> Mapping[JobId, JobState]:
        """Without those that are gone."""
        ...
