"""Every tenant there is, by the published look at their names; what is done for each, is done under its clamp."""

from collections.abc import AsyncIterator

from app.domain.ids import TenantId
from app.ports.sweeps import Sweeps

NAMES_AT_A_TIME = 500


async def each_tenant(sweeps: Sweeps) -> AsyncIterator[TenantId]:
    async for names in tenants_in_batches(sweeps, at_a_time=NAMES_AT_A_TIME):
        for name in names:
            yield name


async def tenants_in_batches(sweeps: Sweeps, *, at_a_time: int) -> AsyncIterator[list[TenantId]]:
    names = await sweeps.tenants(after=None, limit=at_a_time)
    while names:
        yield names
        names = await sweeps.tenants(after=names[-1], limit=at_a_time)
