"""The tenant's own row in the memory store."""

from dataclasses import replace

from app.adapters.memory.store import Session
from app.domain.tenants import Limits, Tenant, TenantState


class MemoryTenantRow:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self) -> bool:
        tables = await self._session.writing()
        if tables.tenant is not None:
            return False
        tables.tenant = Tenant(id=self._session.tenant_id, state=TenantState.ACTIVE, created_at=self._session.now())
        return True

    async def get(self) -> Tenant | None:
        return self._session.reading().tenant

    async def set_state(self, state: TenantState) -> bool:
        tables = await self._session.writing()
        if tables.tenant is None:
            return False
        tables.tenant = replace(tables.tenant, state=state)
        return True

    async def set_limits(self, limits: Limits) -> bool:
        tables = await self._session.writing()
        if tables.tenant is None:
            return False
        tables.tenant = replace(tables.tenant, limits=limits)
        return True

    async def lock(self) -> Tenant | None:
        return (await self._session.writing()).tenant

    async def remove(self) -> bool:
        tables = await self._session.writing()
        if tables.tenant is None or tables.tenant.state is not TenantState.SUSPENDED:
            return False
        tables.clear()
        return True
