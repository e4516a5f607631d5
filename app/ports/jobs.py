"""Ports of a transaction for jobs, their changes, webhooks, idempotency keys and usage.

Each takes part in the transaction, so that a job's end and its results are committed together. Changes need no log:
positions follow the order of commits.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Protocol
from uuid import UUID

from app.domain.changes import ChangePage, ChangeWindow, Position, StatePage
from app.domain.doorbells import Ring
from app.domain.idempotency import KeptResponse
from app.domain.ids import DocumentId, JobId, WebhookId
from app.domain.jobs import Attempt, Job, JobFilter, JobState, NewJob, Progress
from app.domain.leases import SettledAttempt, Settlement
from app.domain.outcomes import DeliveryRings
from app.domain.usage import DailyUsage, UsageCounts
from app.domain.webhooks import Webhook


class Jobs(Protocol):
    async def add(self, job: NewJob) -> Job | None:
        """Insert as queued. None when a job of the same kind and dedup key is queued or claimed in this tenant."""
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
        """Return jobs, newest first."""
        ...

    async def of_documents(
        self, document_ids: Sequence[DocumentId], *, each: int, kind: str | None = None
    ) -> list[Job]:
        """Return up to `each` jobs of each document, newest first. Live ones are chosen before ended ones."""
        ...

    async def live_equal(self, *, kind: str, dedup_key: str) -> Job | None:
        """Return the queued or claimed job of this kind and dedup key."""
        ...

    async def matching(self, wanted: JobFilter, *, after: JobId | None = None, limit: int) -> list[JobId]:
        """Return ids of jobs in their order, so that a caller visits each once whatever becomes of them meanwhile."""
        ...

    async def live(self, *, at_most: int) -> int:
        """Return the number of queued and claimed jobs, counted up to `at_most`."""
        ...

    async def attempts(self, job_id: JobId) -> list[Attempt]:
        """Return the attempts that ended, oldest first."""
        ...

    async def cancel(self, job_id: JobId) -> tuple[Job, DeliveryRings] | None:
        """End a queued job, flag a claimed one, leave an ended one unchanged. None when there is no such job.

        Also returns the kinds and rings of the deliveries that announce its end. Ring them after the commit.
        """
        ...

    async def retry(self, job_id: JobId, *, states: Collection[JobState]) -> Job | None:
        """Queue an ended job again. Its failures, expiries, result and answers are deleted; its drafts are kept.

        None when there is no such job in one of those states. Raises Conflict while an equal one is queued or claimed.
        """
        ...

    async def prune(self, *, older_than: timedelta, limit: int, dry_run: bool = False) -> int:
        """Delete up to `limit` jobs without a document that ended longer ago than this. Return their number.

        Locked jobs are left for the next call.
        """
        ...

    async def wake(self, document_id: DocumentId) -> list[tuple[str, Ring]]:
        """Make due the never tried jobs that wait for the document's text. Return their kinds and rings.

        Ring them after the commit. Jobs locked by another transaction are skipped.
        """
        ...

    async def settle(self, settlement: Settlement) -> SettledAttempt | None:
        """End an attempt inside this transaction, together with its results. None when the lease is lost."""
        ...

    async def save_result(self, job_id: JobId, result: object) -> None:
        """Store the job's result, a JSON value. It is scrubbed, because it may quote a document.

        Only once: raises Conflict when there is already a result, NotFound when there is no such job.
        """
        ...


class Changes(Protocol):
    """Changes of jobs' states, including new jobs. Progress and deletions don't count as changes."""

    async def now(self) -> Position:
        """Return the position that sees exactly what is committed now."""
        ...

    async def within(
        self, window: ChangeWindow, *, of: Collection[JobId] | None = None, limit: int
    ) -> ChangePage | None:
        """Return a page of the jobs that changed, each once, limited to `of`.

        None when the window begins at no position of this store. A job that changed again after the window may be left
        out, because it is in the next window. A page may have fewer jobs than the limit, or none, without being the
        last.
        """
        ...

    async def standing(
        self, *, upto: Position, of: Collection[JobId] | None = None, after: JobId | None = None, limit: int
    ) -> StatePage:
        """Return the live jobs, or those in `of`, except jobs whose change `upto` does not see."""
        ...

    async def running(self, *, of: Collection[JobId] | None = None) -> Mapping[JobId, Progress]:
        """Return the progress of claimed jobs that have reported some."""
        ...

    async def states(self, job_ids: Collection[JobId]) -> Mapping[JobId, JobState]:
        """Return the states of the jobs that still exist."""
        ...


class Webhooks(Protocol):
    async def add(self, webhook: Webhook) -> None: ...

    async def get(self, webhook_id: WebhookId) -> Webhook | None: ...

    async def newest(self, *, limit: int, before: WebhookId | None = None) -> list[Webhook]:
        """Return webhooks, newest first."""
        ...

    async def remove(self, webhook_id: WebhookId) -> bool:
        """Delete the webhook. Its pending deliveries end by themselves. False when there is no such webhook."""
        ...

    async def rotate(self, webhook_id: WebhookId, *, secret: str, overlap: timedelta) -> Webhook | None:
        """Sign with this secret from now on, and with the former one too during the overlap.

        None when there is no such webhook.
        """
        ...

    async def enable(self, webhook_id: WebhookId) -> Webhook | None:
        """Enable the webhook. None when there is no such webhook."""
        ...

    async def disable(
        self, webhook_id: WebhookId, *, reason: str, unless_healthy_since: datetime | None = None
    ) -> bool:
        """Disable the webhook. False when it is already disabled, or has been healthy since then."""
        ...

    async def note_health(self, webhook_id: WebhookId) -> None:
        """Record that a delivery succeeded, accurate to a minute."""
        ...

    async def deliveries(self, webhook_id: WebhookId, *, limit: int, before: JobId | None = None) -> Sequence[Job]:
        """Return deliveries, newest first, also those of a deleted webhook."""
        ...


class IdempotencyKeys(Protocol):
    async def take(self, key: str, fingerprint: bytes) -> KeptResponse | None:
        """Take the key for this transaction's request (None), or return the outcome of an earlier request with it.

        Waits for an open transaction that took the key; raises Conflict when that takes too long. An expired key counts
        as unused. Nothing is taken unless the transaction commits.
        """
        ...

    async def answer(self, key: str, *, resource_id: UUID, made: bool, document_id: DocumentId | None = None) -> None:
        """Store the outcome of the request whose key this transaction has taken. It is deleted with the document."""
        ...

    async def release(self, key: str) -> None:
        """Delete the key, as if it had never been used."""
        ...

    async def remove_expired(self, *, at_most: int) -> int:
        """Return the number of rows deleted. Skips rows locked by another transaction."""
        ...


class Usage(Protocol):
    async def add(self, used: UsageCounts) -> None:
        """Add to today's usage.

        It waits for no other transaction, because it inserts a row and changes none. Zero usage adds none.
        """
        ...

    async def by_day(self, first: date, last: date) -> Sequence[DailyUsage]:
        """Return the days with usage from `first` to `last`, both included, in order."""
        ...

    async def fold(self, *, before: date) -> int:
        """Fold all rows of a day into one if that day is over. Return the number of rows folded into others."""
        ...
