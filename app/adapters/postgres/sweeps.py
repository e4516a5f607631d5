"""The two looks across tenants, and the pass that runs under each tenant's own clamp."""

from collections.abc import Sequence

from app.adapters.postgres.engine import Engine
from app.domain.doorbells import Ring
from app.domain.ids import TenantId
from app.ports.sweeps import Backlog, Swept


class PostgresSweeps:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def tenants_with_due_work(self, *, limit: int, early: frozenset[str] | None = None) -> list[TenantId]:
        statement = "select t from daira.tenants_with_due_work($1, $2) as t"
        return [row["t"] for row in await self._engine.call(statement, limit, _kinds(early))]

    async def tenants(self, *, after: TenantId | None, limit: int) -> list[TenantId]:
        statement = "select t from daira.tenants_with_due_work($1, null, $2) as t"
        return [row["t"] for row in await self._engine.call(statement, limit, after or "")]

    async def sweep(
        self, tenants: Sequence[TenantId], *, limit: int, early: frozenset[str] | None = None
    ) -> list[Swept]:
        rows = await self._engine.call("select * from daira.sweep($1, $2, $3)", list(tenants), limit, _kinds(early))
        return [
            Swept(
                ring=Ring(row["tenant_id"], row["job_id"]),
                kind=row["kind"],
                expired=row["expired"],
                due=row["due"],
                delay=row["delay"],
            )
            for row in rows
        ]

    async def backlog(self) -> list[Backlog]:
        return [Backlog(**row) for row in await self._engine.call("select * from daira.backlog()")]


def _kinds(early: frozenset[str] | None) -> list[str] | None:
    return None if early is None else sorted(early)
