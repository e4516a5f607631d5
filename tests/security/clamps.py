"""Transactions clamped by hand, in plain SQL, and what is seen in them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from tests.support.postgres_rig import TENANT_TABLES

TABLES = [table.name for table in TENANT_TABLES]


@asynccontextmanager
async def clamped(connection: asyncpg.Connection, tenant: str) -> AsyncIterator[None]:
    async with connection.transaction():
        await connection.execute("select set_config('app.tenant_id', $1, true)", tenant)
        yield


async def counts(connection: asyncpg.Connection) -> dict[str, int]:
    return {table: await connection.fetchval(f"select count(*) from daira.{table}") for table in TABLES}
