"""A database of whose connections each tenant has a share, so that no tenant's queries keep the others waiting."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from app.domain.ids import TenantId
from app.domain.keys import ApiKey
from app.domain.tenants import Tenant
from app.ports.database import KeyedDatabase, Tx
from app.services.fair_queue import FairSemaphore

RESERVED = 2
"""Connections of the pool that no transaction of a request takes: for looking keys up, and for readiness."""

PATIENCE = timedelta(seconds=10)
"""The same time as the pool's own."""

UNBOUNDED = 1 << 31
"""The line needs no limit of its own: the requests that a tenant may have open are limited."""


class FairDatabase:
    """Transactions in turns: a tenant has at most half of the pool's connections at a time."""

    def __init__(self, database: KeyedDatabase, *, pool_size: int) -> None:
        self._database = database
        self.turns = FairSemaphore(
            at_once=max(1, pool_size - RESERVED),
            share=max(1, min(pool_size // 2, pool_size - RESERVED - 1)),
            waiting=UNBOUNDED,
            patience=PATIENCE,
            what="database",
        )

    @asynccontextmanager
    async def begin(self, tenant_id: TenantId) -> AsyncIterator[Tx]:
        async with self.turns.turn(tenant_id), self._database.begin(tenant_id) as tx:
            yield tx

    async def presented(self, tenant_id: TenantId, secret_sha256: bytes) -> tuple[ApiKey, Tenant, datetime] | None:
        """Look a key up, without a turn: whoever sends it is not known yet."""
        return await self._database.presented(tenant_id, secret_sha256)
