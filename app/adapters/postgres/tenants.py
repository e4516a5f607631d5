"""The tenant's own row of the registry."""

from dataclasses import asdict

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.dialects.postgresql import insert

from app.adapters.postgres.clamped import Clamped
from app.adapters.postgres.tables import tenants
from app.domain.tenants import Limits, Tenant, TenantState


class PostgresTenant:
    def __init__(self, clamped: Clamped) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def add(self) -> bool:
        statement = insert(tenants).values(tenant_id=self._tenant_id).on_conflict_do_nothing()
        return (await self._clamped.execute(statement)).rowcount == 1

    async def get(self) -> Tenant | None:
        row = (await self._clamped.execute(select(tenants).where(self._own()))).one_or_none()
        if row is None:
            return None
        return Tenant(
            id=row.tenant_id,
            state=TenantState(row.state),
            created_at=row.created_at,
            limits=Limits(
                max_running=row.max_running,
                max_queued=row.max_queued,
                max_upload_bytes=row.max_upload_bytes,
                requests_per_minute=row.requests_per_minute,
            ),
        )

    async def set_state(self, state: TenantState) -> bool:
        statement = update(tenants).where(self._own()).values(state=state)
        return (await self._clamped.execute(statement)).rowcount == 1

    async def set_limits(self, limits: Limits) -> bool:
        statement = update(tenants).where(self._own()).values(asdict(limits))
        return (await self._clamped.execute(statement)).rowcount == 1

    def _own(self) -> ColumnElement[bool]:
        return tenants.c.tenant_id == self._tenant_id
