"""Idempotency keys in the memory store."""

from dataclasses import replace
from uuid import UUID

from app.adapters.memory.store import IdempotencyRow, Session
from app.domain.idempotency import LIFETIME, Answered
from app.domain.ids import DocumentId


class MemoryIdempotencyKeys:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def take(self, key: str, fingerprint: bytes) -> Answered | None:
        # The tenant's only writer: whoever had the key open has come to an end.
        tables = await self._session.writing()
        tables.require_tenant()
        now = self._session.now()
        row = tables.idempotency_keys.get(key)
        if row is not None and row.expires_at > now:
            return row.answered
        tables.idempotency_keys[key] = IdempotencyRow(fingerprint=fingerprint, expires_at=now + LIFETIME)
        return None

    async def answer(self, key: str, *, resource_id: UUID, made: bool, document_id: DocumentId | None = None) -> None:
        keys = (await self._session.writing()).idempotency_keys
        row = keys[key]
        answered = Answered(fingerprint=row.fingerprint, resource_id=resource_id, made=made)
        keys[key] = replace(row, answered=answered, document_id=document_id)

    async def release(self, key: str) -> None:
        (await self._session.writing()).idempotency_keys.pop(key, None)

    async def remove_expired(self, *, at_most: int) -> int:
        keys, now = (await self._session.writing()).idempotency_keys, self._session.now()
        expired = [key for key, row in keys.items() if row.expires_at <= now][:at_most]
        for key in expired:
            del keys[key]
        return len(expired)
