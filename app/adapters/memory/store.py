"""The tables that the memory adapters share: each tenant's, replaced as a whole when a transaction commits.

For development and tests: everything is lost with the process. Callers may be on several threads, each with a loop.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from app.domain.documents import Document
from app.domain.errors import NotFound
from app.domain.idempotency import KeptResponse
from app.domain.ids import DocumentId, JobId, KeyId, OrderedIds, TenantId, WebhookId
from app.domain.jobs import Attempt, Job
from app.domain.keys import ApiKey
from app.domain.llm.kept_answers import KeptAnswer
from app.domain.pages import Page
from app.domain.tenants import Tenant
from app.domain.usage import DailyUsage
from app.domain.webhooks import Webhook


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job with the columns that only the store reads."""

    job: Job
    ring_after: datetime
    rings: int = 0
    has_result: bool = False
    """True if there is a result, which may itself be null."""
    changed: int = 0
    """The commit that gave the job its present state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRow:
    fingerprint: bytes
    expires_at: datetime
    answered: KeptResponse | None = None
    document_id: DocumentId | None = None


@dataclass(slots=True, kw_only=True)
class TenantTables:
    """One tenant's rows. Rows are never changed, only replaced, so a shallow copy is a snapshot."""

    tenant: Tenant | None = None
    keys: dict[KeyId, ApiKey] = field(default_factory=dict)
    documents: dict[DocumentId, Document] = field(default_factory=dict)
    pages: dict[DocumentId, tuple[Page, ...]] = field(default_factory=dict)
    indexed: dict[DocumentId, tuple[Page, ...]] = field(default_factory=dict)
    """Each document's pages at the time of indexing."""
    drafts: dict[JobId, dict[int, Page]] = field(default_factory=dict)
    answers: dict[JobId, dict[str, KeptAnswer]] = field(default_factory=dict)
    jobs: dict[JobId, JobRow] = field(default_factory=dict)
    attempts: dict[JobId, tuple[Attempt, ...]] = field(default_factory=dict)
    commits: int = 0
    webhooks: dict[WebhookId, Webhook] = field(default_factory=dict)
    idempotency_keys: dict[str, IdempotencyRow] = field(default_factory=dict)
    usage: tuple[DailyUsage, ...] = ()
    ids: OrderedIds = field(default_factory=OrderedIds)
    """Shared by all copies. The clock may stand still in a test, and a later transaction's ids must be greater."""

    def copy(self) -> "TenantTables":
        return TenantTables(
            tenant=self.tenant,
            keys=dict(self.keys),
            documents=dict(self.documents),
            pages=dict(self.pages),
            indexed=dict(self.indexed),
            drafts=dict(self.drafts),
            answers=dict(self.answers),
            jobs=dict(self.jobs),
            attempts=dict(self.attempts),
            commits=self.commits,
            webhooks=dict(self.webhooks),
            idempotency_keys=dict(self.idempotency_keys),
            usage=self.usage,
            ids=self.ids,
        )

    def commit_after(self, before: "TenantTables") -> None:
        """Number the commit, and give its number to the jobs whose state it changed."""
        self.commits = before.commits + 1
        for identity, row in self.jobs.items():
            old = before.jobs.get(identity)
            if row is not old:
                same = old is not None and old.job.state is row.job.state
                self.jobs[identity] = replace(row, changed=old.changed if same and old else self.commits)

    def clear(self) -> None:
        """Remove all rows, as the cascade from a removed tenant does in a database."""
        self.tenant = None
        for rows in (self.keys, self.documents, self.pages, self.drafts, self.answers, self.jobs, self.attempts):
            rows.clear()
        self.webhooks.clear()
        self.indexed.clear()
        self.idempotency_keys.clear()
        self.usage = ()

    def counts(self) -> dict[str, int]:
        return {
            "tenants": int(self.tenant is not None),
            "api_keys": len(self.keys),
            "documents": len(self.documents),
            "pages": sum(len(pages) for pages in self.pages.values()),
            "indexed": len(self.indexed),
            "drafts": sum(len(pages) for pages in self.drafts.values()),
            "answers": sum(len(answers) for answers in self.answers.values()),
            "jobs": len(self.jobs),
            "usage": len(self.usage),
            "job_attempts": sum(len(attempts) for attempts in self.attempts.values()),
            "webhooks": len(self.webhooks),
            "idempotency_keys": len(self.idempotency_keys),
        }

    def require_tenant(self) -> None:
        """Raise NotFound without a tenant, as a foreign key to the tenants does in a database."""
        if self.tenant is None:
            raise NotFound("the tenant is not registered: create it first")


def utc_now() -> datetime:
    return datetime.now(UTC)


class MemoryStore:
    def __init__(self, clock: Callable[[], datetime] = utc_now) -> None:
        self.now = clock
        self._tables: dict[TenantId, TenantTables] = {}
        self._locks: dict[TenantId, threading.Lock] = {}

    def tables(self, tenant: TenantId) -> TenantTables:
        """The committed tables; callers must not change them."""
        return self._tables.get(tenant) or TenantTables()

    def registered(self) -> list[TenantId]:
        return sorted(self._tables)

    @asynccontextmanager
    async def writing(self, tenant: TenantId) -> AsyncIterator[TenantTables]:
        """Yield a copy for the tenant's only writer. It replaces the committed tables unless an exception is raised."""
        async with _held(self._locks.setdefault(tenant, threading.Lock())):
            before = self.tables(tenant)
            copy = before.copy()
            yield copy
            copy.commit_after(before)
            if copy.tenant is None:
                self._tables.pop(tenant, None)
            else:
                self._tables[tenant] = copy


@asynccontextmanager
async def _held(lock: threading.Lock) -> AsyncIterator[None]:
    # Heartbeats come from a thread of their own, and an asyncio.Lock belongs to one loop.
    while not lock.acquire(blocking=False):  # noqa: ASYNC110 -- so does an asyncio.Event
        await asyncio.sleep(0.001)
    try:
        yield
    finally:
        lock.release()


class MemorySession:
    """One transaction. It reads the committed tables until its first write, and from then on its own copy.

    Like read committed with a lock for writers: a reader never waits, and never sees uncommitted rows.
    """

    def __init__(self, store: MemoryStore, tenant: TenantId, stack: AsyncExitStack) -> None:
        self.tenant_id = tenant
        self.now = store.now
        self._store = store
        self._stack = stack
        self._copy: TenantTables | None = None
        self._closed = False

    def reading(self) -> TenantTables:
        self._check_open()
        return self._copy or self._store.tables(self.tenant_id)

    async def writing(self) -> TenantTables:
        self._check_open()
        if self._copy is None:
            self._copy = await self._stack.enter_async_context(self._store.writing(self.tenant_id))
        return self._copy

    def check_owner(self, tenant: TenantId) -> None:
        """Raise ValueError for a row of another tenant, as a row-level WITH CHECK does in a database."""
        if tenant != self.tenant_id:
            raise ValueError("the row belongs to another tenant than the transaction")

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the transaction is over: begin another")
