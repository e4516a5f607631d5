"""The store, behind one door: a transaction that is clamped to a tenant before its first statement."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from app.domain.answers import Kept
from app.domain.documents import Cursor, Document, DocumentStatus
from app.domain.doorbells import Ring
from app.domain.ids import DocumentId, JobId, KeyId, TenantId
from app.domain.jobs import Attempt, Job, JobState, NewJob
from app.domain.keys import ApiKey
from app.domain.leases import Lease, Settlement
from app.domain.pages import Page
from app.domain.tenants import Limits, Tenant, TenantState
from app.domain.warnings import DocumentWarning, WarningCode
from app.ports.changes import Changes


class Database(Protocol):
    def begin(self, tenant_id: TenantId) -> AbstractAsyncContextManager["Tx"]:
        """Open a transaction that sees and writes this tenant's rows alone; leaving commits, an exception rolls back.

        A row of another tenant is as if it were not there. Raises Invalid for a malformed tenant and
        Unavailable when the database can't be reached.
        """
        ...


class KeyedDatabase(Database, Protocol):
    """One that callers are known by."""

    async def presented(self, tenant_id: TenantId, secret_sha256: bytes) -> tuple[ApiKey, Tenant] | None:
        """The tenant's key with that secret, valid or not, and the tenant. In one round trip: each request asks.

        Raises as `begin` does.
        """
        ...


class Tx(Protocol):
    """An open transaction, of use until its context is left."""

    @property
    def tenant(self) -> "TenantRow": ...

    @property
    def keys(self) -> "Keys": ...

    @property
    def documents(self) -> "Documents": ...

    @property
    def pages(self) -> "Pages": ...

    @property
    def answers(self) -> "Answers": ...

    @property
    def jobs(self) -> "Jobs": ...

    @property
    def changes(self) -> Changes: ...


class TenantRow(Protocol):
    async def add(self) -> bool:
        """Register the tenant; False when it is registered already."""
        ...

    async def get(self) -> Tenant | None: ...

    async def set_state(self, state: TenantState) -> bool:
        """False when there is no such tenant."""
        ...

    async def set_limits(self, limits: Limits) -> bool:
        """All of them; False when there is no such tenant."""
        ...

    async def lock(self) -> Tenant | None:
        """Wait until no other transaction holds this lock, and hold it to the end of this one: to count, then act.

        What is read afterwards includes all that earlier holders have committed. Take it last: whoever holds it may
        wait for nothing else. It is the lock that a claim counts running jobs under.
        """
        ...

    async def remove(self) -> bool:
        """Delete a suspended tenant with everything that it has in the store; False when there is none."""
        ...


class Keys(Protocol):
    async def add(self, key: ApiKey) -> None: ...

    async def all(self) -> list[ApiKey]: ...

    async def revoke(self, key_id: KeyId) -> bool:
        """False when there is no such key; revoking twice keeps the first time."""
        ...

    async def expire(self, key_id: KeyId, *, at: datetime) -> bool:
        """Let the key end at that time, unless it ends sooner; False when there is no such key."""
        ...

    async def touch(self, key_id: KeyId) -> None:
        """Note that the key was used just now."""
        ...


class Documents(Protocol):
    async def add(self, document: Document) -> Document | None:
        """Insert; None when this tenant has the same bytes already."""
        ...

    async def get(self, document_id: DocumentId) -> Document | None: ...

    async def with_bytes(self, sha256: str) -> Document | None: ...

    async def newest(
        self,
        *,
        limit: int,
        before: Cursor | None = None,
        status: DocumentStatus | None = None,
        filename: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        sha256: str | None = None,
    ) -> list[Document]:
        """Newest first; `before` is the last document of the previous page."""
        ...

    async def known(self, document_ids: Sequence[DocumentId]) -> set[DocumentId]:
        """Those of them that there is a document of."""
        ...

    async def set_read(
        self, document_id: DocumentId, *, page_count: int, warnings: Sequence[DocumentWarning] = ()
    ) -> bool:
        """Say that the text is there; False when the document is gone."""
        ...

    async def remove(self, document_id: DocumentId) -> bool:
        """Delete with its pages, jobs and results; False when it is gone already."""
        ...


class Pages(Protocol):
    async def replace(
        self,
        document_id: DocumentId,
        new: Sequence[Page],
        *,
        drafts_of: JobId | None = None,
        keep_others: bool = False,
    ) -> None:
        """The document has these pages from now on, and those that the job drafted, which are drafts no longer.

        `keep_others`: and those it had under other numbers. Raises NotFound when there is no such document.
        """
        ...

    async def draft(self, lease: Lease, new: Sequence[Page]) -> bool:
        """Keep what an attempt has read so far, for the next one; False when the lease is lost.

        A page that was drafted before stays as it is.
        """
        ...

    async def drafted(self, job_id: JobId) -> frozenset[int]:
        """The numbers of the job's drafts."""
        ...

    async def all(self, document_id: DocumentId) -> list[Page]:
        """In order, without their words."""
        ...

    async def get(self, document_id: DocumentId, number: int) -> Page | None:
        """With its words."""
        ...

    async def some(self, document_id: DocumentId, *, after: int, limit: int) -> list[Page]:
        """With their words, in order, from the first number beyond `after`."""
        ...

    async def warnings(self, document_id: DocumentId) -> Mapping[int, Sequence[WarningCode]]:
        """Of the pages that have any, by their numbers."""
        ...


class Answers(Protocol):
    async def keep(self, lease: Lease, kept: Kept) -> bool:
        """Keep what a question of the job was answered, for the next attempt; False when the lease is lost.

        A question that was answered before stays as it is.
        """
        ...

    async def kept(self, job_id: JobId) -> list[Kept]: ...

    async def forget(self, job_id: JobId) -> None:
        """The job has its result: what led to it goes."""
        ...


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

    async def cancel(self, job_id: JobId) -> Job | None:
        """End a queued job, flag a claimed one, leave an ended one as it is; None when there is none."""
        ...

    async def wake(self, document_id: DocumentId) -> list[tuple[str, Ring]]:
        """Make due what waits for the document's text and was never tried; kinds and rings, for after the commit.

        One that somebody is at just now is left alone.
        """
        ...

    async def settle(self, settlement: Settlement) -> bool:
        """End an attempt inside this transaction, together with its results. False: the lease is lost."""
        ...

    async def save_result(self, job_id: JobId, result: object) -> None:
        """What the job answers, a JSON value; scrubbed, for it may quote a document.

        Once: raises Conflict when there is a result already, NotFound when there is no such job.
        """
        ...
