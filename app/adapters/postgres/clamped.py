"""The connection that repositories get inside a clamped transaction; unusable once that has ended.

With it come the fence of a worker's write beside its settle, which requires that the job is still claimed in that very
attempt, and the meaning of constraint violations.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import asyncpg
from asyncpg import ForeignKeyViolationError, UniqueViolationError
from sqlalchemy import CursorResult, Executable, and_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.postgres.tables import jobs
from app.domain.errors import Conflict, NotFound
from app.domain.ids import DocumentId, TenantId
from app.domain.jobs import EQUAL_IS_LIVE, JobState
from app.domain.leases import Lease


class ClampedConnection:
    def __init__(self, connection: AsyncConnection, tenant_id: TenantId) -> None:
        self._connection: AsyncConnection | None = connection
        self.tenant_id = tenant_id

    async def execute(
        self, statement: Executable, parameters: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None
    ) -> CursorResult[Any]:
        """Execute a statement. It is fastest with one that was built once and gets its values as parameters."""
        return await self._open().execute(statement, parameters)

    async def call(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """Call one of the SQL functions in this transaction, which the statement that set the clamp began."""
        raw = await self._open().get_raw_connection()
        assert raw.driver_connection is not None
        rows: list[asyncpg.Record] = await raw.driver_connection.fetch(statement, *arguments)
        return rows

    def end(self) -> None:
        self._connection = None

    def _open(self) -> AsyncConnection:
        if self._connection is None:
            raise RuntimeError("this transaction has ended: begin another one")
        return self._connection


LOCK_DOCUMENT = "select from daira.documents where tenant_id = $1 and id = $2 for no key update"


async def locked_document(clamped: ClampedConnection, document_id: DocumentId) -> bool:
    """Lock the document's row until the transaction ends. False if there is no such document.

    Every set of rows that belongs to a document (pages, words of the index) is replaced under this lock, so that two
    jobs replace it one after the other. A settle has its job's row before. The lock lets jobs be added meanwhile.
    """
    return bool(await clamped.call(LOCK_DOCUMENT, clamped.tenant_id, document_id))


async def holds(clamped: ClampedConnection, lease: Lease) -> bool:
    """Return True if the lease is held, and lock the job's row.

    The lock makes another end of the attempt come either before, which is then seen here, or after the transaction.
    """
    fence = and_(
        jobs.c.tenant_id == clamped.tenant_id,
        jobs.c.id == lease.job_id,
        jobs.c.attempts == lease.attempt,
        jobs.c.state == JobState.CLAIMED,
    )
    held = await clamped.execute(select(jobs.c.id).where(fence).with_for_update(read=True))
    return held.one_or_none() is not None


@contextmanager
def known_faults() -> Iterator[None]:
    """Turn known constraint violations into the caller's errors: NotFound and Conflict.

    Foreign keys include the tenant, so a violated one means that this tenant has no such row.
    """
    try:
        yield
    except (IntegrityError, ForeignKeyViolationError) as error:
        driver = error.orig.__cause__ if isinstance(error, IntegrityError) and error.orig else error
        if isinstance(driver, ForeignKeyViolationError):
            raise NotFound("the tenant, document or job that this belongs to does not exist") from error
        if isinstance(driver, UniqueViolationError) and driver.constraint_name == "jobs_dedup":
            raise Conflict(EQUAL_IS_LIVE) from error
        raise
