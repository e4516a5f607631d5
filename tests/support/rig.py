"""An empty store for one test, how time passes in it, and the steps that the tests share."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from app.adapters.memory.database import MemoryDatabase
from app.adapters.memory.leases import MemoryLeases, MemorySweeps
from app.adapters.memory.store import MemoryStore
from app.domain.documents import Document
from app.domain.doorbells import Ring
from app.domain.ids import DocumentId, JobId, KeyId, TenantId, WebhookId, tenant_id, uuid7
from app.domain.jobs import APART, MAX_EXPIRIES, Attempt, AttemptOutcome, Job, JobError, JobState, NewJob, Progress
from app.domain.keys import ApiKey, Scope, new_secret, secret_hash
from app.domain.leases import BeatResult, ClaimedJob, ClaimResult, Lease, LeaseBeat, Settlement
from app.domain.llm.kept_answers import KeptAnswer
from app.domain.pages import Page, Source, Word
from app.domain.tenants import TenantState
from app.domain.webhooks import Event, Webhook, delivery_job
from app.domain.webhooks import new_secret as new_webhook_secret
from app.ports.database import Database, KeyedDatabase
from app.ports.leases import Leases, Sweeps

LEASE = timedelta(seconds=60)
SECOND = timedelta(seconds=1)
KIND = "ocr"
OOPS = JobError(code="oops", message="it did not work")


@dataclass(frozen=True, kw_only=True)
class Rig:
    """What a suite needs of an adapter."""

    database: KeyedDatabase
    leases: Leases
    sweeps: Sweeps
    advance: Callable[[timedelta], Awaitable[None]]
    """Let time pass for everything that is stored."""
    tenantless_counts: Callable[[], Awaitable[dict[str, int]]]
    """For each tenant table, how many rows are visible where no tenant was set."""

    async def tenant(self, name: str = "acme") -> TenantId:
        async with self.database.begin(tenant_id(name)) as tx:
            assert await tx.tenant.add()
        return tenant_id(name)

    async def suspend(self, tenant: TenantId) -> None:
        async with self.database.begin(tenant) as tx:
            assert await tx.tenant.set_state(TenantState.SUSPENDED)

    async def resume(self, tenant: TenantId) -> None:
        async with self.database.begin(tenant) as tx:
            assert await tx.tenant.set_state(TenantState.ACTIVE)

    async def key(self, tenant: TenantId) -> ApiKey:
        key = new_key(tenant)
        async with self.database.begin(tenant) as tx:
            await tx.keys.add(key)
        return key

    async def webhook(self, tenant: TenantId, **fields: Any) -> Webhook:
        webhook = new_webhook(tenant, **fields)
        async with self.database.begin(tenant) as tx:
            await tx.webhooks.add(webhook)
        return webhook

    async def document(self, tenant: TenantId, **fields: Any) -> Document:
        async with self.database.begin(tenant) as tx:
            document = await tx.documents.add(new_document(tenant, **fields))
        assert document is not None
        return document

    async def enqueue(self, tenant: TenantId, **fields: Any) -> Job:
        async with self.database.begin(tenant) as tx:
            job = await tx.jobs.add(new_job(**fields))
        assert job is not None
        return job

    async def again(self, job: Job) -> Job:
        """The job as it is now."""
        async with self.database.begin(job.tenant_id) as tx:
            found = await tx.jobs.get(job.id)
        assert found is not None
        return found

    async def attempts(self, job: Job) -> list[Attempt]:
        async with self.database.begin(job.tenant_id) as tx:
            return await tx.jobs.attempts(job.id)

    async def cancel(self, job: Job) -> Job | None:
        async with self.database.begin(job.tenant_id) as tx:
            cancelled = await tx.jobs.cancel(job.id)
        return cancelled and cancelled[0]

    async def remove(self, document: Document) -> bool:
        async with self.database.begin(document.tenant_id) as tx:
            return await tx.documents.remove(document.id)

    async def pages(self, document: Document) -> list[Page]:
        async with self.database.begin(document.tenant_id) as tx:
            return await tx.pages.all(document.id)

    async def claim(
        self, ring: Ring, *, worker: str = "worker", kinds: frozenset[str] = frozenset({KIND})
    ) -> ClaimResult:
        (claim,) = await self.leases.claim([ring], worker=worker, lease=LEASE, kinds=kinds)
        assert claim.ring == ring
        return claim

    async def claimed(self, job: Job, *, worker: str = "worker") -> ClaimedJob:
        """Claim a job that can be."""
        claim = await self.claim(ring_of(job), worker=worker, kinds=frozenset({job.kind}))
        assert claim.job is not None, claim.outcome
        return claim.job

    async def lease(self, job: Job, *, worker: str = "worker") -> Lease:
        return (await self.claimed(job, worker=worker)).lease

    async def beat(self, lease: Lease) -> BeatResult:
        (beat,) = await self.leases.beat([LeaseBeat(lease=lease)], lease=LEASE)
        return beat

    async def settle(self, settlement: Settlement) -> bool:
        (settled,) = await self.leases.settle([settlement])
        return settled is not None

    async def expire(self, job: Job) -> None:
        """Let the lease of a claimed job run out, and have it swept."""
        await self.advance(LEASE + SECOND)
        swept = await self.sweeps.sweep([job.tenant_id], limit=100)
        assert [found.ring for found in swept if found.expired] == [ring_of(job)]
        if (await self.again(job)).expiries == MAX_EXPIRIES - 1:
            await self.advance(APART)


def memory_rig() -> Rig:
    """Time stands still but for `advance`."""
    now = datetime.now(UTC)
    store = MemoryStore(clock=lambda: now)

    async def advance(delta: timedelta) -> None:
        nonlocal now
        now += delta

    async def tenantless_counts() -> dict[str, int]:
        return store.tables(TenantId("")).counts()

    return Rig(
        database=MemoryDatabase(store),
        leases=MemoryLeases(store),
        sweeps=MemorySweeps(store),
        advance=advance,
        tenantless_counts=tenantless_counts,
    )


def ring_of(job: Job) -> Ring:
    return Ring(job.tenant_id, job.id)


def new_job(**fields: Any) -> NewJob:
    defaults: dict[str, Any] = {"id": JobId(uuid7()), "kind": KIND, "payload": {}}
    return NewJob(**defaults | fields)


def new_delivery(webhook_id: WebhookId, **fields: Any) -> NewJob:
    return delivery_job(webhook_id, delivery_id=JobId(uuid7()), **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTime:
    """A database whose clock shows another time to those who ask a transaction for it."""

    database: Database
    now: Callable[[], datetime]

    @asynccontextmanager
    async def begin(self, tenant_id: TenantId) -> AsyncIterator[Any]:
        async with self.database.begin(tenant_id) as tx:
            setattr(tx, "now", self.now())  # noqa: B010 - the port's is read-only
            yield tx


def new_document(tenant: TenantId, **fields: Any) -> Document:
    identity = DocumentId(uuid7())
    defaults: dict[str, Any] = {
        "id": identity,
        "tenant_id": tenant,
        "filename": "letter.pdf",
        "media_type": "application/pdf",
        "size": 1234,
        "sha256": sha256(identity.bytes).hexdigest(),
        "language": "eng",
        "metadata": {},
        "created_at": datetime.now(UTC),
    }
    return Document(**defaults | fields)


def new_key(tenant: TenantId, **fields: Any) -> ApiKey:
    defaults: dict[str, Any] = {
        "id": KeyId(uuid7()),
        "tenant_id": tenant,
        "name": "a key",
        "secret_sha256": secret_hash(new_secret()),
        "scopes": frozenset({Scope.DOCUMENTS_READ, Scope.JOBS_WRITE}),
        "created_at": datetime.now(UTC),
    }
    return ApiKey(**defaults | fields)


def new_webhook(tenant: TenantId, **fields: Any) -> Webhook:
    now = datetime.now(UTC)
    defaults: dict[str, Any] = {
        "id": WebhookId(uuid7()),
        "tenant_id": tenant,
        "url": "https://receiver.test/hooks",
        "events": frozenset(Event),
        "description": "",
        "secret": new_webhook_secret(),
        "created_at": now,
        "healthy_at": now,
    }
    return Webhook(**defaults | fields)


def new_page(number: int = 1, *, text: str = "Dear Sir") -> Page:
    """Its numbers are exact in any floating-point format."""
    return Page(
        number=number,
        text=text,
        source=Source.OCR,
        confidence=0.875,
        width=612.0,
        height=792.0,
        rotation=90,
        language="eng",
        words=(
            Word(text=text, box=(72.0, 72.5, 144.25, 90.0), confidence=0.75, source=Source.TEXT_LAYER, line=2, block=1),
        ),
    )


def new_answer(**fields: Any) -> KeptAnswer:
    defaults: dict[str, Any] = {"question": "a:0", "text": "{}", "input_tokens": 100, "output_tokens": 20}
    return KeptAnswer(**defaults | fields)


def done(lease: Lease) -> Settlement:
    return Settlement(lease=lease, state=JobState.DONE, outcome=AttemptOutcome.DONE)


def retry(lease: Lease, *, delay: timedelta = SECOND, error: JobError = OOPS) -> Settlement:
    return Settlement(lease=lease, state=JobState.QUEUED, outcome=AttemptOutcome.RETRY, error=error, delay=delay)


def fail(lease: Lease) -> Settlement:
    return Settlement(lease=lease, state=JobState.FAILED, outcome=AttemptOutcome.FAIL, error=OOPS)


def snooze(lease: Lease, *, delay: timedelta = SECOND) -> Settlement:
    return Settlement(lease=lease, state=JobState.QUEUED, outcome=AttemptOutcome.SNOOZE, delay=delay)


def put_back(lease: Lease, *, recognition: bool = False, progress: Progress | None = None) -> Settlement:
    return Settlement(
        lease=lease,
        state=JobState.QUEUED,
        outcome=AttemptOutcome.YIELD,
        recognition=recognition,
        progress=progress,
    )


def release(lease: Lease) -> Settlement:
    return Settlement(lease=lease, state=JobState.QUEUED, outcome=AttemptOutcome.RELEASE)
