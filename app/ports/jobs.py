"""Jobs inside a transaction: asked for, looked at, ended together with their results."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Protocol
from uuid import UUID

from app.domain.changes import ChangePage, ChangeWindow, Position, StatePage
from app.domain.doorbells import Ring
from app.domain.idempotency import KeptResponse
from app.domain.ids import DocumentId, JobId, WebhookId
from app.domain.jobs import Attempt, Job, JobState, NewJob, Progress
from app.domain.leases import SettledAttempt, Settlement
from app.domain.outcomes import Woken
from app.domain.usage import DailyUsage, UsageCounts
from app.domain.webhooks import Webhook


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

    async def settle(self, settlement: Settlement) -> SettledAttempt | None:
        """End an attempt inside this transaction, together with its results. None: the lease is lost."""
        ...

    async def save_result(self, job_id: JobId, result: object) -> None:
        """What the job answers, a JSON value; scrubbed, for it may quote a document.

        Once: raises Conflict when there is a result already, NotFound when there is no such job.
        """
        ...


class Changes(Protocol):
    """A change is one of a job's state, a new job's among them; progress is none, and neither is a deletion."""

    async def now(self) -> Position:
        """What is committed by now is seen from here, and nothing else."""
        ...

    async def within(
        self, window: ChangeWindow, *, of: Collection[JobId] | None = None, limit: int
    ) -> ChangePage | None:
        """The jobs that changed, each once; `of` these alone. None: the window begins at no position of this store.

        A job that has changed again, after the window, may be left out: it is in the next one. A page may have fewer
        jobs than the limit, or none, and not be the last.
        """
        ...

    async def standing(
        self, *, upto: Position, of: Collection[JobId] | None = None, after: JobId | None = None, limit: int
    ) -> StatePage:
        """The live jobs, or those named, without those whose change is not seen from `upto`."""
        ...

    async def running(self, *, of: Collection[JobId] | None = None) -> Mapping[JobId, Progress]:
        """The progress of claimed jobs that have told some."""
        ...

    async def states(self, job_ids: Collection[JobId]) -> Mapping[JobId, JobState]:
        """Without those that are gone."""
        ...


class Webhooks(Protocol):
    async def add(self, webhook: Webhook) -> None: ...

    async def get(self, webhook_id: WebhookId) -> Webhook | None: ...

    async def newest(self, *, limit: int, before: WebhookId | None = None) -> list[Webhook]:
        """Newest first."""
        ...

    async def remove(self, webhook_id: WebhookId) -> bool:
        """Delete; what is on its way to it ends by itself. False when there is no such webhook."""
        ...

    async def rotate(self, webhook_id: WebhookId, *, secret: str, overlap: timedelta) -> Webhook | None:
        """Sign with this secret from now on, and for the overlap with the former one too; None when there is none."""
        ...

    async def enable(self, webhook_id: WebhookId) -> Webhook | None:
        """None when there is none."""
        ...

    async def disable(
        self, webhook_id: WebhookId, *, reason: str, unless_healthy_since: datetime | None = None
    ) -> bool:
        """False when it is disabled already, or has been healthy since then."""
        ...

    async def note_health(self, webhook_id: WebhookId) -> None:
        """A delivery has succeeded, to within a minute."""
        ...

    async def deliveries(self, webhook_id: WebhookId, *, limit: int, before: JobId | None = None) -> Sequence[Job]:
        """Newest first; also of a webhook that is gone."""
        ...


class IdempotencyKeys(Protocol):
    async def take(self, key: str, fingerprint: bytes) -> KeptResponse | None:
        """Use the key for this transaction's request: None. Or what an earlier one with the key has come to.

        One that is open is waited for; raises Conflict when that takes too long. An expired key is as none. Nothing
        is taken when the transaction does not commit.
        """
        ...

    async def answer(self, key: str, *, resource_id: UUID, made: bool, document_id: DocumentId | None = None) -> None:
        """Say what the key that this transaction has taken has come to. It goes with the document."""
        ...

    async def release(self, key: str) -> None:
        """As if it had never been used."""
        ...

    async def remove_expired(self, *, at_most: int) -> int:
        """How many it were; those that somebody is at just now are passed over."""
        ...


class Usage(Protocol):
    async def add(self, used: UsageCounts) -> None:
        """Today. Nobody waits for anybody: a row is added, none is changed. Nothing used adds none."""
        ...

    async def by_day(self, first: date, last: date) -> Sequence[DailyUsage]:
        """Of these days those on which something was used, in order; both days are within."""
        ...

    async def fold(self, *, before: date) -> int:
        """Make one row of all that a day has, for days that are over. Returns how many rows went into others."""
        ...
