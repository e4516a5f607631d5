"""How many round trips something takes: for benchmarks."""

import asyncpg
from typing_extensions import override

from app.adapters.postgres.engine import PostgresEngine


class Counted(PostgresEngine):
    """An engine that counts its calls."""

    calls = 0

    @override
    async def call(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        self.calls += 1
        return await super().call(statement, *arguments)
