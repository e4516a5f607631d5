"""The tenants of a selftest: registered before the checks and removed after them, whatever the outcome."""

from datetime import timedelta

from app.domain import selftest
from app.domain.ids import TenantId
from app.domain.tenants import TenantState
from app.ports.database import Database, Tx
from app.ports.leases import Sweeps
from app.selftest.bench import CheckFailed, SelftestBench, error_text

ABANDONED = timedelta(days=1)
"""Age from which tenants of a selftest count as left behind by a killed one."""

NAMES_AT_A_TIME = 100


async def register_tenants(bench: SelftestBench) -> str:
    """The selftest has tenants of its own."""
    for tenant in (bench.tenant, bench.other):
        bench.tenants.append(tenant)
        try:
            async with bench.parts.database.begin(tenant) as tx:
                await tx.tenant.add()
        except Exception as error:
            bench.tenants.remove(tenant)
            raise CheckFailed(f"no tenant can be registered ({error_text(error)}); run `daira doctor`") from error
    return f"{bench.tenant} and {bench.other}"


async def remove_tenants(bench: SelftestBench) -> str:
    """Nothing of the selftest is left."""
    if not bench.tenants:
        return "there was nothing"
    left: list[str] = []
    jobs = 0
    for key in bench.blobs:
        try:
            await bench.parts.blobs.delete(key)
        except Exception as error:  # noqa: BLE001 - one that can't be removed must not stop the removal of others
            left.append(f"blob {key} ({error_text(error)})")
    for tenant in bench.tenants:
        try:
            jobs += await _remove(bench.parts.database, tenant)
        except Exception as error:  # noqa: BLE001 - as above
            left.append(f"tenant {tenant} ({error_text(error)})")
    if left:
        raise CheckFailed(f"left behind: {', '.join(left)}. A selftest removes what an earlier one left a day ago")
    abandoned = await _remove_abandoned(bench.parts.database, bench.parts.sweeps)
    earlier = f"; {abandoned} tenant(s) that a killed one had left" if abandoned else ""
    return f"{len(bench.tenants)} tenants, {jobs} jobs{earlier}"


async def _remove(database: Database, tenant: TenantId) -> int:
    """Remove the tenant and return the number of its jobs."""
    # Committed first: from then on no worker begins another of its jobs.
    async with database.begin(tenant) as tx:
        await tx.tenant.set_state(TenantState.SUSPENDED)
    async with database.begin(tenant) as tx:
        jobs = len(await tx.jobs.newest())
        await tx.tenant.remove()
    return jobs


async def _remove_abandoned(database: Database, sweeps: Sweeps) -> int:
    after, removed = TenantId(selftest.PREFIX), 0
    while names := await sweeps.tenants(after=after, limit=NAMES_AT_A_TIME):
        for name in filter(selftest.is_ours, names):
            async with database.begin(name) as tx:
                abandoned = await _is_abandoned(tx)
            if abandoned:
                await _remove(database, name)
                removed += 1
        after = names[-1]
        if not after.startswith(selftest.PREFIX):
            break
    return removed


async def _is_abandoned(tx: Tx) -> bool:
    """Return True if the tenant is old enough and holds only things that a selftest makes; a name is no proof."""
    tenant = await tx.tenant.get()
    return (
        tenant is not None
        and tx.now - tenant.created_at > ABANDONED
        and all(key.name == selftest.KEY_NAME for key in await tx.keys.all())
        and all(document.media_type == selftest.MEDIA_TYPE for document in await tx.documents.newest(limit=2))
        and all(job.kind == selftest.KIND for job in await tx.jobs.newest())
    )
