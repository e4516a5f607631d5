"""Jobs inside a transaction: asked for, looked at, ended together with their results."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Protocol

from app.domain.doorbells import Ring
from app.domain.ids import DocumentId, JobId
from app.domain.jobs import Attempt, Job, JobState, NewJob
from app.domain.leases import Settled, Settlement
from app.domain.outcomes import Woken


class Jobs(Protocol):
    async def add(self, job: NewJob) -> Job | None:
        """Insert, queued; None when one of the same kind and dedup key is queued or claimed in this tenant."""
        ...

    async def get(self, job_id: JobId) -> Job | None: ...

    async def newest(
        self,
        *,
        document_ids: Sequence[DocumentId] | None = None,
        state: JobState | None = None,
        kind: str | None = None,
        limit: int | None = None,
        before: JobId | None = None,
    ) -> list[Job]:
        """Newest first."""
        ...

    async def live(self, *, at_most: int) -> int:
        """How many are queued or claimed, counted no further than that."""
        ...

    async def attempts(self, job_id: JobId) -> list[Attempt]:
        """Those that ended, oldest first."""
        ...

    async def cancel(self, job_id: JobId) -> tuple[Job, Woken] | None:
        """End a queued job, flag a claimed one, leave an ended one as it is; None when there is none.

        With the kinds and rings of the deliveries that tell of its end, for after the commit.
        """
        ...

    async def retry(self, job_id: JobId, *, states: Collection[JobState]) -> Job | None:
        """Queue an ended job again, with its failures, expiries, result and answers gone and its drafts kept.

        None when there is none in one of those states. Raises Conflict while an equal one is queued or claimed.
        """
        ...

    async def prune(self, *, older_than: timedelta, limit: int, dry_run: bool = False) -> int:
        """Delete jobs without a document that ended so long ago, so many at most; how many that were.

        What is locked just now is left for the next time.
        """
        ...

    async def wake(self, document_id: DocumentId) -> list[tuple[str, Ring]]:
        """Make due what waits for the document's text and was never tried; kinds and rings, for after the commit.

        One that somebody is at just now is left alone.
        """
        ...

    async def settle(self, settlement: Settlement) -> Settled | None:
        """End an attempt inside this transaction, together with its results. None: the lease is lost."""
        ...

    async def save_result(self, job_id: JobId, result: object) -> None:
        """What the job answers, a JSON value; scrubbed, for it may quote a document.

        Once: raises Conflict when there is a result already, NotFound when there is no such job.
        """
        ...
