"""A connection inside a clamped transaction: all that the repositories get, and of no use once it is over."""

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg
from sqlalchemy import CursorResult, Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.ids import TenantId


class Clamped:
    def __init__(self, connection: AsyncConnection, tenant_id: TenantId) -> None:
        self._connection: AsyncConnection | None = connection
        self.tenant_id = tenant_id

    async def execute(
        self, statement: Executable, parameters: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None
    ) -> CursorResult[Any]:
        """Quickest with a statement that was built once and is given its values as parameters."""
        return await self._open().execute(statement, parameters)

    async def call(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """One of the functions, in this transaction: it was begun by the statement that set the clamp."""
        raw = await self._open().get_raw_connection()
        assert raw.driver_connection is not None
        rows: list[asyncpg.Record] = await raw.driver_connection.fetch(statement, *arguments)
        return rows

    def end(self) -> None:
        self._connection = None

    def _open(self) -> AsyncConnection:
        if self._connection is None:
            raise RuntimeError("this transaction is over: begin another one")
        return self._connection
