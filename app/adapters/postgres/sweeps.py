"""The two queries across tenants, and the sweep, which runs under each tenant's own clamp."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime

from app.adapters.postgres.engine import PostgresEngine
from app.domain.doorbells import Ring
from app.domain.ids import TenantId
from app.ports.leases import Backlog, CleanupBlockers, SweptJob

# A login without pg_read_all_stats sees neither snapshot nor age of other roles' sessions. Its own snapshot shows that
# their transactions run.
WEAR = """
select (select coalesce(max(clock_timestamp() - a.xact_start), interval '0') from pg_stat_activity a
        where a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_xmin is not null
       ) as oldest_snapshot,
       greatest(age(pg_snapshot_xmin(pg_current_snapshot())::xid),
                (select max(age(a.backend_xmin)) from pg_stat_activity a where a.datname = current_database()),
                (select max(greatest(age(s.xmin), age(s.catalog_xmin))) from pg_replication_slots s),
                (select max(age(p.transaction)) from pg_prepared_xacts p)) as oldest_transactions
"""
ROWS = """
select t.relname as name, t.n_dead_tup as dead, t.n_live_tup as live from pg_stat_user_tables t
where t.schemaname = 'daira' and t.relname in ('jobs', 'doorbells')
"""


class PostgresSweeps:
    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def now(self) -> datetime:
        (row,) = await self._engine.call("select clock_timestamp() as now")
        now: datetime = row["now"]
        return now

    async def tenants_with_due_work(
        self, *, limit: int, early: frozenset[str] | None = None, recognition: bool | None = None
    ) -> list[TenantId]:
        statement = "select t from daira.tenants_with_due_work($1, $2, null, $3) as t"
        return [row["t"] for row in await self._engine.call(statement, limit, _kinds(early), recognition)]

    async def tenants(self, *, after: TenantId | None, limit: int) -> list[TenantId]:
        statement = "select t from daira.tenants_with_due_work($1, null, $2) as t"
        return [row["t"] for row in await self._engine.call(statement, limit, after or "")]

    async def sweep(
        self,
        tenants: Sequence[TenantId],
        *,
        limit: int,
        early: frozenset[str] | None = None,
        recognition: bool | None = None,
    ) -> list[SweptJob]:
        statement = "select * from daira.sweep($1, $2, $3, $4)"
        rows = await self._engine.call(statement, list(tenants), limit, _kinds(early), recognition)
        return [
            SweptJob(
                ring=Ring(row["tenant_id"], row["job_id"]),
                kind=row["kind"],
                expired=row["expired"],
                due=row["due"],
                delay=row["delay"],
            )
            for row in rows
        ]

    async def backlog(self) -> list[Backlog]:
        return [
            Backlog(**{each.name: row[each.name] for each in fields(Backlog)})
            for row in await self._engine.call("select * from daira.backlog()")
        ]

    async def wear(self) -> CleanupBlockers:
        ((oldest_snapshot, oldest_transactions),) = await self._engine.call(WEAR)
        tables = await self._engine.call(ROWS)
        return CleanupBlockers(
            dead={row["name"]: row["dead"] for row in tables},
            live={row["name"]: row["live"] for row in tables},
            oldest_snapshot=oldest_snapshot,
            oldest_transactions=oldest_transactions,
        )


def _kinds(early: frozenset[str] | None) -> list[str] | None:
    return None if early is None else sorted(early)
