"""The tenant's own row, and its API keys.

Keys are looked up by their secret's hash, under the clamp of the tenant that they name.
"""

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import ColumnElement, Row, delete, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from app.adapters.postgres.clamped import ClampedConnection, known_faults
from app.adapters.postgres.stored import known_name, known_names
from app.adapters.postgres.tables import api_keys, doorbells, jobs, tenants
from app.domain.ids import KeyId
from app.domain.keys import ApiKey, Scope
from app.domain.tenants import Limits, Tenant, TenantState


class PostgresTenantRow:
    def __init__(self, clamped: ClampedConnection) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def add(self) -> bool:
        statement = insert(tenants).values(tenant_id=self._tenant_id).on_conflict_do_nothing()
        return (await self._clamped.execute(statement)).rowcount == 1

    async def get(self) -> Tenant | None:
        return _tenant((await self._clamped.execute(select(tenants).where(self._own()))).one_or_none())

    async def set_state(self, state: TenantState) -> bool:
        statement = update(tenants).where(self._own()).values(state=state)
        return (await self._clamped.execute(statement)).rowcount == 1

    async def set_limits(self, limits: Limits) -> bool:
        statement = update(tenants).where(self._own()).values(asdict(limits))
        return (await self._clamped.execute(statement)).rowcount == 1

    async def lock(self) -> Tenant | None:
        # NO KEY: a plain FOR UPDATE would delay every insert of a document or job, because of its foreign key.
        statement = select(tenants).where(self._own()).with_for_update(key_share=True)
        return _tenant((await self._clamped.execute(statement)).one_or_none())

    async def remove(self) -> bool:
        # A settle locks its job and then the document; the cascade would lock them in the opposite order.
        of_it = jobs.c.tenant_id == self._tenant_id
        await self._clamped.execute(select(jobs.c.id).where(of_it).order_by(jobs.c.id).with_for_update())
        # Forced row-level security permits this for suspended tenants only.
        removed = (await self._clamped.execute(delete(tenants).where(self._own()))).rowcount == 1
        if removed:
            await self._remove_bells()
        return removed

    async def _remove_bells(self) -> None:
        """Remove the tenant's bells, if the main database is the queue. A locked bell stays; its claim finds no job."""
        c = doorbells.c
        left = select(c.lane, c.job_id).where(c.tenant_id == self._tenant_id).with_for_update(skip_locked=True)
        mine = c.tenant_id == self._tenant_id
        await self._clamped.execute(delete(doorbells).where(mine, tuple_(c.lane, c.job_id).in_(left)))

    def _own(self) -> ColumnElement[bool]:
        return tenants.c.tenant_id == self._tenant_id


def _tenant(row: Row[tuple[object, ...]] | None) -> Tenant | None:
    if row is None:
        return None
    return Tenant(
        id=row.tenant_id,
        state=known_name(TenantState, row.state, otherwise=TenantState.SUSPENDED),
        created_at=row.created_at,
        limits=Limits(
            max_running=row.max_running,
            max_queued=row.max_queued,
            max_upload_bytes=row.max_upload_bytes,
            requests_per_minute=row.requests_per_minute,
        ),
    )


class PostgresApiKeys:
    def __init__(self, clamped: ClampedConnection) -> None:
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
        # LEAST ignores NULL: a key without an end gets one.
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
    return ApiKey(**columns | {"scopes": frozenset(known_names(Scope, columns["scopes"]))})
