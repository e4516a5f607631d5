"""`Database.begin`: sets the clamp before the first statement; it ends with the transaction."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from functools import cached_property
from uuid import UUID

import asyncpg
from sqlalchemy import text

from app.adapters.postgres.answers import PostgresAnswers
from app.adapters.postgres.changes import PostgresChanges
from app.adapters.postgres.clamped import ClampedConnection
from app.adapters.postgres.documents import PostgresDocuments
from app.adapters.postgres.engine import PostgresEngine
from app.adapters.postgres.idempotency_keys import PostgresIdempotencyKeys
from app.adapters.postgres.jobs import PostgresJobs
from app.adapters.postgres.pages import PostgresPages
from app.adapters.postgres.search.query import PostgresSearch
from app.adapters.postgres.stored import known_name, known_names
from app.adapters.postgres.tenants import PostgresApiKeys, PostgresTenantRow
from app.adapters.postgres.usage import PostgresUsage
from app.adapters.postgres.webhooks import PostgresWebhooks
from app.domain import ids
from app.domain.ids import OrderedIds, TenantId
from app.domain.keys import ApiKey, Scope
from app.domain.tenants import Limits, Tenant, TenantState

# Local to the transaction. SQLAlchemy's pool resets no setting, so any other form would reach the next caller.
# The time comes with it, so that it costs no round trip of its own.
CLAMP = text("select set_config('app.tenant_id', :tenant, true), now(), set_config('row_security', 'on', true)")
PRESENTED = "select *, now() as now from daira.presented_key($1, $2)"
"""Sets the clamp itself, as its first step, and is a transaction of its own."""


class PostgresTx:
    """An open transaction. Each repository is made when it is first used, because most transactions use two of them."""

    def __init__(self, clamped: ClampedConnection, *, now: datetime) -> None:
        self._clamped = clamped
        self.now = now
        self._ids = OrderedIds()

    def new_id(self) -> UUID:
        return self._ids.at(self.now)

    @cached_property
    def tenant(self) -> PostgresTenantRow:
        return PostgresTenantRow(self._clamped)

    @cached_property
    def keys(self) -> PostgresApiKeys:
        return PostgresApiKeys(self._clamped)

    @cached_property
    def documents(self) -> PostgresDocuments:
        return PostgresDocuments(self._clamped)

    @cached_property
    def pages(self) -> PostgresPages:
        return PostgresPages(self._clamped)

    @cached_property
    def search(self) -> PostgresSearch:
        return PostgresSearch(self._clamped)

    @cached_property
    def answers(self) -> PostgresAnswers:
        return PostgresAnswers(self._clamped)

    @cached_property
    def usage(self) -> PostgresUsage:
        return PostgresUsage(self._clamped)

    @cached_property
    def jobs(self) -> PostgresJobs:
        return PostgresJobs(self._clamped)

    @cached_property
    def changes(self) -> PostgresChanges:
        return PostgresChanges(self._clamped)

    @cached_property
    def webhooks(self) -> PostgresWebhooks:
        return PostgresWebhooks(self._clamped)

    @cached_property
    def idempotency_keys(self) -> PostgresIdempotencyKeys:
        return PostgresIdempotencyKeys(self._clamped)


class PostgresDatabase:
    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def begin(self, tenant_id: TenantId) -> AsyncIterator[PostgresTx]:
        tenant_id = ids.tenant_id(tenant_id)
        async with self._engine.begin() as connection:
            _, now, _ = (await connection.execute(CLAMP, {"tenant": tenant_id})).one()
            clamped = ClampedConnection(connection, tenant_id)
            try:
                yield PostgresTx(clamped, now=now)
            finally:
                clamped.end()

    async def presented(self, tenant_id: TenantId, secret_sha256: bytes) -> tuple[ApiKey, Tenant, datetime] | None:
        tenant_id = ids.tenant_id(tenant_id)
        rows = await self._engine.call(PRESENTED, tenant_id, secret_sha256)
        if not rows:
            return None
        return _key(rows[0], tenant_id, secret_sha256), _tenant(rows[0], tenant_id), rows[0]["now"]


def _key(row: asyncpg.Record, tenant_id: TenantId, secret_sha256: bytes) -> ApiKey:
    return ApiKey(
        id=row["id"],
        tenant_id=tenant_id,
        name=row["name"],
        secret_sha256=secret_sha256,
        scopes=frozenset(known_names(Scope, row["scopes"])),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
    )


def _tenant(row: asyncpg.Record, tenant_id: TenantId) -> Tenant:
    return Tenant(
        id=tenant_id,
        state=known_name(TenantState, row["tenant_state"], otherwise=TenantState.SUSPENDED),
        created_at=row["tenant_created_at"],
        limits=Limits(
            max_running=row["max_running"],
            max_queued=row["max_queued"],
            max_upload_bytes=row["max_upload_bytes"],
            requests_per_minute=row["requests_per_minute"],
        ),
    )
