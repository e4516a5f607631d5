"""The clamped transaction on the memory store, with its tenant's row, API keys and idempotency keys."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from uuid import UUID

from app.adapters.memory.documents import MemoryAnswers, MemoryDocuments, MemoryPages, MemorySearch, MemoryUsage
from app.adapters.memory.jobs import MemoryChanges, MemoryJobs, MemoryWebhooks
from app.adapters.memory.store import IdempotencyRow, MemorySession, MemoryStore
from app.domain import ids
from app.domain.errors import Conflict
from app.domain.idempotency import LIFETIME, KeptResponse
from app.domain.ids import DocumentId, KeyId, TenantId
from app.domain.keys import ApiKey
from app.domain.tenants import Limits, Tenant, TenantState
from app.domain.text import scrub
from app.ports.database import ApiKeys, TenantRow, Tx
from app.ports.documents import Answers, Documents, Pages, Search
from app.ports.jobs import Changes, IdempotencyKeys, Jobs, Usage, Webhooks


class MemoryTenantRow:
    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def add(self) -> bool:
        tables = await self._session.writing()
        if tables.tenant is not None:
            return False
        tables.tenant = Tenant(id=self._session.tenant_id, state=TenantState.ACTIVE, created_at=self._session.now())
        return True

    async def get(self) -> Tenant | None:
        return self._session.reading().tenant

    async def set_state(self, state: TenantState) -> bool:
        tables = await self._session.writing()
        if tables.tenant is None:
            return False
        tables.tenant = replace(tables.tenant, state=state)
        return True

    async def set_limits(self, limits: Limits) -> bool:
        tables = await self._session.writing()
        if tables.tenant is None:
            return False
        tables.tenant = replace(tables.tenant, limits=limits)
        return True

    async def lock(self) -> Tenant | None:
        return (await self._session.writing()).tenant

    async def remove(self) -> bool:
        tables = await self._session.writing()
        if tables.tenant is None or tables.tenant.state is not TenantState.SUSPENDED:
            return False
        tables.clear()
        return True


class MemoryApiKeys:
    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def add(self, key: ApiKey) -> None:
        self._session.check_owner(key.tenant_id)
        tables = await self._session.writing()
        tables.require_tenant()
        if key.id in tables.keys or with_secret(tables.keys, key.secret_sha256):
            raise Conflict(f"key {key.id} exists already")
        tables.keys[key.id] = replace(key, name=scrub(key.name))

    async def all(self) -> list[ApiKey]:
        return sorted(self._session.reading().keys.values(), key=lambda key: (key.created_at, key.id))

    async def revoke(self, key_id: KeyId) -> bool:
        keys = (await self._session.writing()).keys
        key = keys.get(key_id)
        if key is None:
            return False
        keys[key_id] = replace(key, revoked_at=key.revoked_at or self._session.now())
        return True

    async def expire(self, key_id: KeyId, *, at: datetime) -> bool:
        keys = (await self._session.writing()).keys
        key = keys.get(key_id)
        if key is None:
            return False
        keys[key_id] = replace(key, expires_at=min(key.expires_at or at, at))
        return True

    async def touch(self, key_id: KeyId) -> None:
        keys = (await self._session.writing()).keys
        if key := keys.get(key_id):
            keys[key_id] = replace(key, last_used_at=self._session.now())


def with_secret(keys: dict[KeyId, ApiKey], secret_sha256: bytes) -> ApiKey | None:
    return next((key for key in keys.values() if key.secret_sha256 == secret_sha256), None)


class MemoryIdempotencyKeys:
    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def take(self, key: str, fingerprint: bytes) -> KeptResponse | None:
        # This is the tenant's only writer, so an earlier request with the key has ended.
        tables = await self._session.writing()
        tables.require_tenant()
        now = self._session.now()
        row = tables.idempotency_keys.get(key)
        if row is not None and row.expires_at > now:
            return row.answered
        tables.idempotency_keys[key] = IdempotencyRow(fingerprint=fingerprint, expires_at=now + LIFETIME)
        return None

    async def answer(self, key: str, *, resource_id: UUID, made: bool, document_id: DocumentId | None = None) -> None:
        keys = (await self._session.writing()).idempotency_keys
        row = keys[key]
        answered = KeptResponse(fingerprint=row.fingerprint, resource_id=resource_id, made=made)
        keys[key] = replace(row, answered=answered, document_id=document_id)

    async def release(self, key: str) -> None:
        (await self._session.writing()).idempotency_keys.pop(key, None)

    async def remove_expired(self, *, at_most: int) -> int:
        keys, now = (await self._session.writing()).idempotency_keys, self._session.now()
        expired = [key for key, row in keys.items() if row.expires_at <= now][:at_most]
        for key in expired:
            del keys[key]
        return len(expired)


class MemoryTx:
    """An open transaction. Each repository is made when it is first used, because most transactions use two of them."""

    def __init__(self, session: MemorySession) -> None:
        self._session = session
        self.now = session.now()

    def new_id(self) -> UUID:
        return self._session.reading().ids.at(self.now)

    @cached_property
    def tenant(self) -> TenantRow:
        return MemoryTenantRow(self._session)

    @cached_property
    def keys(self) -> ApiKeys:
        return MemoryApiKeys(self._session)

    @cached_property
    def documents(self) -> Documents:
        return MemoryDocuments(self._session)

    @cached_property
    def pages(self) -> Pages:
        return MemoryPages(self._session)

    @cached_property
    def search(self) -> Search:
        return MemorySearch(self._session)

    @cached_property
    def answers(self) -> Answers:
        return MemoryAnswers(self._session)

    @cached_property
    def usage(self) -> Usage:
        return MemoryUsage(self._session)

    @cached_property
    def jobs(self) -> Jobs:
        return MemoryJobs(self._session)

    @cached_property
    def changes(self) -> Changes:
        return MemoryChanges(self._session)

    @cached_property
    def webhooks(self) -> Webhooks:
        return MemoryWebhooks(self._session)

    @cached_property
    def idempotency_keys(self) -> IdempotencyKeys:
        return MemoryIdempotencyKeys(self._session)


class MemoryDatabase:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    @asynccontextmanager
    async def begin(self, tenant_id: TenantId) -> AsyncIterator[Tx]:
        async with AsyncExitStack() as stack:
            session = MemorySession(self._store, ids.tenant_id(tenant_id), stack)
            try:
                yield MemoryTx(session)
            finally:
                session.close()

    async def presented(self, tenant_id: TenantId, secret_sha256: bytes) -> tuple[ApiKey, Tenant, datetime] | None:
        tables = self._store.tables(ids.tenant_id(tenant_id))
        key = with_secret(tables.keys, secret_sha256)
        return (key, tables.tenant, self._store.now()) if key and tables.tenant else None
