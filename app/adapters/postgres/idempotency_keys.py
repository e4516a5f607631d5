"""Idempotency keys. The row's uniqueness lets one of several requests through and makes the others wait for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

from asyncpg import LockNotAvailableError
from sqlalchemy import ColumnElement, and_, delete, func, literal, select, text, update
from sqlalchemy.dialects.postgresql import INTERVAL, insert
from sqlalchemy.exc import DBAPIError

from app.adapters.postgres.clamped import ClampedConnection, known_faults
from app.adapters.postgres.tables import idempotency_keys
from app.domain.errors import Conflict
from app.domain.idempotency import LIFETIME, KeptResponse
from app.domain.ids import DocumentId

WAIT_BRIEFLY = text("set local lock_timeout = '5s'")
"""The wait for another request with the key to commit. That request has its bytes already and only writes rows."""

WAIT_AS_BEFORE = text("set local lock_timeout to default")


class PostgresIdempotencyKeys:
    def __init__(self, clamped: ClampedConnection) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def take(self, key: str, fingerprint: bytes) -> KeptResponse | None:
        values = {"tenant_id": self._tenant_id, "key": key, "fingerprint": fingerprint}
        statement = (
            insert(idempotency_keys)
            .values(**values, expires_at=func.now() + literal(LIFETIME, INTERVAL))
            .on_conflict_do_nothing()
            .returning(idempotency_keys.c.key)
        )
        async with self._patiently():
            while True:
                # Locked rows are not skipped: skipping a key that is being used would use it twice.
                with known_faults():
                    if (await self._clamped.execute(statement)).one_or_none():
                        return None
                # Between the two statements the key may expire, or be removed with its document.
                if answered := await self._answered(key):
                    return answered

    async def answer(self, key: str, *, resource_id: UUID, made: bool, document_id: DocumentId | None = None) -> None:
        answered = {"resource_id": resource_id, "made": made, "document_id": document_id}
        with known_faults():
            await self._clamped.execute(update(idempotency_keys).where(self._own(key)).values(answered))

    async def release(self, key: str) -> None:
        await self._clamped.execute(delete(idempotency_keys).where(self._own(key)))

    async def remove_expired(self, *, at_most: int) -> int:
        c = idempotency_keys.c
        mine = c.tenant_id == self._tenant_id
        expired = select(c.key).where(mine, c.expires_at <= func.now()).limit(at_most)
        statement = delete(idempotency_keys).where(mine, c.key.in_(expired.with_for_update(skip_locked=True)))
        return (await self._clamped.execute(statement)).rowcount

    async def _answered(self, key: str) -> KeptResponse | None:
        c = idempotency_keys.c
        await self._clamped.execute(delete(idempotency_keys).where(self._own(key), c.expires_at <= func.now()))
        row = (await self._clamped.execute(select(idempotency_keys).where(self._own(key)))).one_or_none()
        if row is None:
            return None
        return KeptResponse(fingerprint=row.fingerprint, resource_id=row.resource_id, made=row.made)

    @asynccontextmanager
    async def _patiently(self) -> AsyncIterator[None]:
        await self._clamped.execute(WAIT_BRIEFLY)
        try:
            yield
        except DBAPIError as error:
            if error.orig is not None and isinstance(error.orig.__cause__, LockNotAvailableError):
                # Not chained: with the lock's error as its cause it would become Unavailable.
                message = "a request with this Idempotency-Key is in progress: send it again later"
                raise Conflict(message, retry_after=timedelta(seconds=1)) from None
            raise
        await self._clamped.execute(WAIT_AS_BEFORE)

    def _own(self, key: str) -> ColumnElement[bool]:
        return and_(idempotency_keys.c.tenant_id == self._tenant_id, idempotency_keys.c.key == key)
