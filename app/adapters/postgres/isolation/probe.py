"""A probe of tenant isolation with the program's own rights: tries to read and write rows of other tenants."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Table, insert, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.postgres import tables
from app.adapters.postgres.database import CLAMP
from app.adapters.postgres.engine import PostgresEngine
from app.adapters.postgres.isolation.checks import TENANT_TABLES, is_refused, nothing_looks_across
from app.domain import selftest
from app.domain.ids import TenantId
from app.domain.usage import NOTHING

# Tables come from the catalogue, so that tables unknown to this version are tried too. Tables that the login can't read
# show no rows anyway.
READABLE = f"""
select t.name from ({TENANT_TABLES}) t where has_table_privilege(t.oid, 'select') order by 1
"""

# With isolation, an index finds the clamped tenant's rows quickly and hides all others. Without it, the first row shows
# the fault.
NO_WALK = text("set local enable_seqscan = off")
OTHERS = "select exists (select from daira.{table} where tenant_id is distinct from :mine) as seen"
OWN = "select exists (select from daira.{table} where tenant_id = :mine) as seen"

Values = dict[str, Any]

ONE = UUID(int=1)
"""The id of each tenant's document, job and key; two tenants may use the same id."""


class PostgresIsolationProbe:
    """Probes isolation for `daira selftest`.

    It has an engine of its own with one connection, because the order of its uses matters.
    """

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def furnish(self, tenant: TenantId) -> None:
        """Add a row to every tenant table; the tenant is registered already."""
        async with self._engine.begin() as connection:
            await _clamp(connection, tenant)
            for table, values in _rows(tenant).items():
                if table is not tables.tenants:
                    await connection.execute(insert(table).values(values))

    async def tables(self) -> list[str]:
        """The names of all tables that hold tenants' rows and can be read."""
        return [row["name"] for row in await self._engine.call(READABLE)]

    async def faults(self, mine: TenantId, theirs: TenantId) -> list[str]:
        """The faults found with two furnished tenants; empty if isolation holds."""
        # The next connection is a fresh one. After its first clamp the setting is '' there, and never missing again.
        await self._engine.close()
        return [
            *_fault_list("without a tenant, rows are seen in", await self._with_others(None)),
            *_fault_list("rows of other tenants are seen in", await self._with_others(mine)),
            *_fault_list("without a tenant, on a used connection, rows are seen in", await self._with_others(None)),
            *_fault_list("a tenant's own rows are not seen in", await self._without_own(mine)),
            *_fault_list("a row for another tenant can be written to", await self._open_to(theirs, clamp=mine)),
            *_fault_list("without a tenant, a row can be written to", await self._open_to(theirs, clamp=None)),
            *await nothing_looks_across(self._engine),
        ]

    async def _with_others(self, mine: TenantId | None) -> list[str]:
        return [name for name in await self.tables() if await self._exists(OTHERS.format(table=name), mine)]

    async def _without_own(self, mine: TenantId) -> list[str]:
        names = [table.name for table in _rows(mine)]
        return [name for name in names if not await self._exists(OWN.format(table=name), mine)]

    async def _exists(self, query: str, mine: TenantId | None) -> bool:
        async with self._engine.begin() as connection:
            await _clamp(connection, mine)
            await connection.execute(NO_WALK)
            return bool((await connection.execute(text(query), {"mine": mine})).scalar_one())

    async def _open_to(self, tenant: TenantId, *, clamp: TenantId | None) -> list[str]:
        rows = _rows(tenant)
        return [table.name for table, values in rows.items() if not await self._refuses(table, values, clamp=clamp)]

    async def _refuses(self, table: Table, values: Values, *, clamp: TenantId | None) -> bool:
        """Return True if the row is refused.

        It exists already, so without isolation the insert ends in a duplicate key and writes nothing.
        """
        try:
            async with self._engine.begin() as connection:
                await _clamp(connection, clamp)
                await connection.execute(insert(table).values(values))
        except DBAPIError as error:
            return is_refused(error)
        return False


async def _clamp(connection: AsyncConnection, tenant: TenantId | None) -> None:
    if tenant is not None:
        await connection.execute(CLAMP, {"tenant": tenant})


def _fault_list(what: str, names: list[str]) -> list[str]:
    return [f"{what} {', '.join(names)}"] if names else []


def _rows(tenant: TenantId) -> dict[Table, Values]:
    """One row for each tenant table, in an order that foreign keys allow."""
    far_off = datetime.max.replace(tzinfo=UTC)
    document = {"document_id": ONE}
    job = {"job_id": ONE}
    page = {"number": 1, "text": "", "source": "ocr", "language": "eng", "rotation": 0}
    rows: dict[Table, Values] = {
        tables.tenants: {},
        tables.api_keys: {"id": ONE, "name": selftest.KEY_NAME, "secret_sha256": ONE.bytes},
        tables.documents: {
            "id": ONE,
            "filename": "selftest",
            "media_type": selftest.MEDIA_TYPE,
            "size": 0,
            "sha256": "0" * 64,
            "language": "eng",
        },
        tables.pages: {**document, **page},
        tables.terms: {**document, "lexeme": "selftest", "stemming": "simple", "places": [1]},
        tables.indexed: {**document, "stemming": "simple"},
        tables.jobs: {**document, "id": ONE, "kind": selftest.KIND, "run_after": far_off, "ring_after": far_off},
        tables.drafts: {**job, **page},
        tables.job_attempts: {**job, "attempt": 1, "worker": "selftest", "started_at": far_off, "outcome": "done"},
        tables.usage: {"id": ONE, **asdict(NOTHING)},
        tables.answers: {**job, "question": "selftest", "input_tokens": 0, "output_tokens": 0},
        tables.results: {**job, "data": {}},
        tables.webhooks: {"id": ONE, "url": "https://selftest.invalid", "events": ["job.done"], "secret": "selftest"},
        tables.idempotency_keys: {**document, "key": "selftest", "fingerprint": ONE.bytes},
    }
    return {table: {"tenant_id": tenant, **values} for table, values in rows.items()}
