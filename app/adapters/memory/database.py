"""The clamped transaction on the memory store."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from app.adapters.memory.answers import MemoryAnswers
from app.adapters.memory.changes import MemoryChanges
from app.adapters.memory.documents import MemoryDocuments
from app.adapters.memory.idempotency_keys import MemoryIdempotencyKeys
from app.adapters.memory.jobs import MemoryJobs
from app.adapters.memory.keys import MemoryKeys, with_secret
from app.adapters.memory.pages import MemoryPages
from app.adapters.memory.search import MemorySearch
from app.adapters.memory.store import MemoryStore, Session
from app.adapters.memory.tenants import MemoryTenantRow
from app.adapters.memory.usage import MemoryUsage
from app.adapters.memory.webhooks import MemoryWebhooks
from app.domain import ids
from app.domain.ids import TenantId
from app.domain.keys import ApiKey
from app.domain.tenants import Tenant
from app.ports.changes import Changes
from app.ports.database import Keys, TenantRow, Tx
from app.ports.documents import Answers, Documents, Pages
from app.ports.idempotency import IdempotencyKeys
from app.ports.jobs import Jobs
from app.ports.search import Search
from app.ports.usage import Usage
from app.ports.webhooks import Webhooks


class MemoryTx:
    def __init__(self, session: Session) -> None:
        self.tenant: TenantRow = MemoryTenantRow(session)
        self.keys: Keys = MemoryKeys(session)
        self.documents: Documents = MemoryDocuments(session)
        self.pages: Pages = MemoryPages(session)
        self.search: Search = MemorySearch(session)
        self.answers: Answers = MemoryAnswers(session)
        self.usage: Usage = MemoryUsage(session)
        self.jobs: Jobs = MemoryJobs(session)
        self.changes: Changes = MemoryChanges(session)
        self.webhooks: Webhooks = MemoryWebhooks(session)
        self.idempotency_keys: IdempotencyKeys = MemoryIdempotencyKeys(session)


class MemoryDatabase:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    @asynccontextmanager
    async def begin(self, tenant_id: TenantId) -> AsyncIterator[Tx]:
        async with AsyncExitStack() as stack:
            session = Session(self._store, ids.tenant_id(tenant_id), stack)
            try:
                yield MemoryTx(session)
            finally:
                session.close()

    async def presented(self, tenant_id: TenantId, secret_sha256: bytes) -> tuple[ApiKey, Tenant] | None:
        tables = self._store.tables(ids.tenant_id(tenant_id))
        key = with_secret(tables.keys, secret_sha256)
        return (key, tables.tenant) if key and tables.tenant else None
