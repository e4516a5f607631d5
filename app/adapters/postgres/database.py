"""`Database.begin`: the clamp is set before the first statement, and ends with the transaction."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text

from app.adapters.postgres.answers import PostgresAnswers
from app.adapters.postgres.clamped import Clamped
from app.adapters.postgres.documents import PostgresDocuments
from app.adapters.postgres.engine import Engine
from app.adapters.postgres.jobs import PostgresJobs
from app.adapters.postgres.keys import PostgresKeys
from app.adapters.postgres.pages import PostgresPages
from app.adapters.postgres.tenants import PostgresTenant
from app.domain import ids
from app.domain.ids import TenantId

# Local to the transaction: SQLAlchemy's pool resets no setting, so any other form would reach the next caller.
CLAMP = text("select set_config('app.tenant_id', :tenant, true)")


class PostgresTx:
    def __init__(self, clamped: Clamped) -> None:
        self.tenant = PostgresTenant(clamped)
        self.keys = PostgresKeys(clamped)
        self.documents = PostgresDocuments(clamped)
        self.pages = PostgresPages(clamped)
        self.answers = PostgresAnswers(clamped)
        self.jobs = PostgresJobs(clamped)


class PostgresDatabase:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def begin(self, tenant_id: TenantId) -> AsyncIterator[PostgresTx]:
        tenant_id = ids.tenant_id(tenant_id)
        async with self._engine.begin() as connection:
            await connection.execute(CLAMP, {"tenant": tenant_id})
            clamped = Clamped(connection, tenant_id)
            try:
                yield PostgresTx(clamped)
            finally:
                clamped.end()
