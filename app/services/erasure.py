"""Erases a tenant: suspends it, then removes bytes, then rows, then the bytes that arrived in between.

The tenant's own row is the last of the rows to go, so that an interrupted erasure can be repeated.
"""

from dataclasses import dataclass

from app.domain.errors import Conflict, NotFound
from app.domain.ids import TenantId
from app.domain.tenants import TenantState
from app.ports.blobs import Blobs
from app.ports.database import Database

AT_A_TIME = 100
"""Documents in one transaction, with all their pages: well within the statement timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantEraser:
    database: Database
    blobs: Blobs

    async def erase(self, tenant_id: TenantId) -> None:
        """Erase the tenant. Work on its jobs stops with the next beat.

        Raises NotFound for an unknown tenant, Conflict if it was resumed meanwhile.
        """
        await self._suspend(tenant_id)
        await self.blobs.delete_all(tenant_id)
        while await self._remove_some(tenant_id):
            pass
        async with self.database.begin(tenant_id) as tx:
            if not await tx.tenant.remove():
                raise Conflict(f"tenant {tenant_id} was resumed meanwhile; suspend it and erase it again")
        # An upload that was under way may have stored its bytes and its row since. A later one has no tenant: its
        # transaction is refused, and it removes its bytes itself.
        await self.blobs.delete_all(tenant_id)

    async def _suspend(self, tenant_id: TenantId) -> None:
        async with self.database.begin(tenant_id) as tx:
            if not await tx.tenant.set_state(TenantState.SUSPENDED):
                raise NotFound(f"there is no tenant {tenant_id}")

    async def _remove_some(self, tenant_id: TenantId) -> int:
        async with self.database.begin(tenant_id) as tx:
            documents = await tx.documents.newest(limit=AT_A_TIME)
            for document in documents:
                await tx.documents.remove(document.id)
        return len(documents)
