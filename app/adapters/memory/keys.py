"""API keys in the memory store."""

from dataclasses import replace
from datetime import datetime

from app.adapters.memory.store import Session
from app.domain.errors import Conflict
from app.domain.ids import KeyId
from app.domain.keys import ApiKey
from app.domain.text import scrub


class MemoryKeys:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, key: ApiKey) -> None:
        self._session.check_owner(key.tenant_id)
        tables = await self._session.writing()
        tables.require_tenant()
        if key.id in tables.keys or with_secret(tables.keys, key.secret_sha256):
            raise Conflict(f"key {key.id} exists already")
        tables.keys[key.id] = replace(key, name=scrub(key.name))

    async def all(self) -> list[ApiKey]:
        return sorted(self._session.reading().keys.values(), key=lambda key: (key.created_at, key.id))

    async def revoke(self, key_id: KeyId) -> bool:
        keys = (await self._session.writing()).keys
        key = keys.get(key_id)
        if key is None:
            return False
        keys[key_id] = replace(key, revoked_at=key.revoked_at or self._session.now())
        return True

    async def expire(self, key_id: KeyId, *, at: datetime) -> bool:
        keys = (await self._session.writing()).keys
        key = keys.get(key_id)
        if key is None:
            return False
        keys[key_id] = replace(key, expires_at=min(key.expires_at or at, at))
        return True

    async def touch(self, key_id: KeyId) -> None:
        keys = (await self._session.writing()).keys
        if key := keys.get(key_id):
            keys[key_id] = replace(key, last_used_at=self._session.now())


def with_secret(keys: dict[KeyId, ApiKey], secret_sha256: bytes) -> ApiKey | None:
    return next((key for key in keys.values() if key.secret_sha256 == secret_sha256), None)
