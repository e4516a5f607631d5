"""API keys, looked up by the hash of their secret under the clamp of the tenant that they name."""

from datetime import datetime

from sqlalchemy import ColumnElement, Row, func, insert, select, update

from app.adapters.postgres.clamped import Clamped
from app.adapters.postgres.faults import known_faults
from app.adapters.postgres.tables import api_keys
from app.domain.ids import KeyId
from app.domain.keys import ApiKey, Scope


class PostgresKeys:
    def __init__(self, clamped: Clamped) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def add(self, key: ApiKey) -> None:
        if key.tenant_id != self._tenant_id:
            raise ValueError("this key is another tenant's")
        with known_faults():
            await self._clamped.execute(
                insert(api_keys).values(
                    tenant_id=self._tenant_id,
                    id=key.id,
                    name=key.name,
                    secret_sha256=key.secret_sha256,
                    scopes=sorted(key.scopes),
                    created_at=key.created_at,
                    expires_at=key.expires_at,
                )
            )

    async def all(self) -> list[ApiKey]:
        statement = select(api_keys).where(self._own()).order_by(api_keys.c.created_at, api_keys.c.id)
        return [_key(row) for row in await self._clamped.execute(statement)]

    async def revoke(self, key_id: KeyId) -> bool:
        statement = (
            update(api_keys)
            .where(self._own(), api_keys.c.id == key_id)
            .values(revoked_at=func.coalesce(api_keys.c.revoked_at, func.now()))
        )
        return (await self._clamped.execute(statement)).rowcount == 1

    async def expire(self, key_id: KeyId, *, at: datetime) -> bool:
        # LEAST passes over NULL: a key without an end gets one.
        sooner = func.least(api_keys.c.expires_at, at)
        statement = update(api_keys).where(self._own(), api_keys.c.id == key_id).values(expires_at=sooner)
        return (await self._clamped.execute(statement)).rowcount == 1

    async def touch(self, key_id: KeyId) -> None:
        statement = update(api_keys).where(self._own(), api_keys.c.id == key_id).values(last_used_at=func.now())
        await self._clamped.execute(statement)

    def _own(self) -> ColumnElement[bool]:
        return api_keys.c.tenant_id == self._tenant_id


def _key(row: Row[tuple[object, ...]]) -> ApiKey:
    columns = row._asdict()
    return ApiKey(**columns | {"scopes": frozenset(map(Scope, columns["scopes"]))})
