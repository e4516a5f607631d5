"""Maintenance: indexes documents that are older than search, and folds the usage rows of past days into one each.

Every worker runs it; none leads, because work that two do at the same time is done once.
"""

from dataclasses import dataclass

import structlog

from app.domain.errors import DairaError, Unavailable
from app.domain.ids import TenantId
from app.ports.leases import Sweeps
from app.services.search import SearchService
from app.services.tenants import each_tenant
from app.services.usage import UsageService

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    sweeps: Sweeps
    search: SearchService
    usage: UsageService

    async def keep_up(self) -> None:
        """Make one pass over all tenants. One that fails does not stop the others.

        Raises Unavailable at the end if any tenant failed.
        """
        failed = 0
        async for tenant_id in each_tenant(self.sweeps):
            failed += not await self._keep_up(tenant_id)
        if failed:
            raise Unavailable(f"maintenance failed for {failed} tenants; the log says why (upkeep_failed)")

    async def _keep_up(self, tenant_id: TenantId) -> bool:
        try:
            indexed, folded = await self.search.catch_up(tenant_id), await self.usage.fold(tenant_id)
        except DairaError as error:
            log.warning("upkeep_failed", tenant_id=tenant_id, reason=str(error))
            return False
        if indexed or folded:
            log.info("tenant_kept_up", tenant_id=tenant_id, indexed=indexed, folded=folded)
        return True
