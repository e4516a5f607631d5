"""`TenantRow`: the lock that counting is done under, and the end of a tenant."""

import asyncio

import pytest

from app.domain.errors import NotFound
from app.domain.ids import TenantId
from app.domain.tenants import Limits
from tests.conformance.database_suite import contents
from tests.conformance.row_fixtures import tenant_rows
from tests.support.rig import LEASE, SECOND, Rig, done, new_document, new_job, ring_of


class TenantsSuite:
    async def test_who_locks_is_told_the_tenant_as_it_is_then(self, rig: Rig) -> None:
        tenant, limits = await rig.tenant(), Limits(max_queued=7)
        async with rig.database.begin(tenant) as tx:
            assert await tx.tenant.set_limits(limits)
        async with rig.database.begin(tenant) as tx:
            locked = await tx.tenant.lock()
            assert locked == await tx.tenant.get()
        assert locked is not None
        assert (locked.id, locked.limits) == (tenant, limits)
        async with rig.database.begin(TenantId("nobody")) as tx:
            assert await tx.tenant.lock() is None

    async def test_a_lock_waits_for_the_other_and_sees_what_it_has_written(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        locked = asyncio.Event()

        async def count() -> int:
            async with rig.database.begin(tenant) as tx:
                locked.set()
                await tx.tenant.lock()
                return await tx.jobs.live(at_most=10)

        async with asyncio.timeout(10):
            async with rig.database.begin(tenant) as tx:
                await tx.tenant.lock()
                counting = asyncio.create_task(count())
                await locked.wait()
                finished, _ = await asyncio.wait({counting}, timeout=0.2)
                assert not finished
                await tx.jobs.add(new_job())
            assert await counting == 1

    async def test_tenants_do_not_wait_for_one_another(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        async with asyncio.timeout(10), rig.database.begin(acme) as tx, rig.database.begin(bolt) as other:
            await tx.tenant.lock()
            assert await other.tenant.lock() is not None

    async def test_a_tenant_is_removed_with_all_that_is_its_own_and_nothing_else(self, rig: Rig) -> None:
        acme, bolt = await tenant_rows(rig, "acme"), await tenant_rows(rig, "bolt")
        before = await contents(rig, bolt.tenant)
        assert await removed(rig, acme.tenant)
        assert await contents(rig, acme.tenant) == (None, [], [], [], [], [], [])
        assert await contents(rig, bolt.tenant) == before
        assert await rig.sweeps.tenants(after=None, limit=10) == [bolt.tenant]

    async def test_a_tenant_is_removed_once(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        assert await removed(rig, tenant)
        async with rig.database.begin(tenant) as tx:
            assert not await tx.tenant.remove()

    async def test_a_tenant_that_is_not_suspended_is_not_removed(self, rig: Rig) -> None:
        acme = await tenant_rows(rig, "acme")
        before = await contents(rig, acme.tenant)
        async with rig.database.begin(acme.tenant) as tx:
            assert not await tx.tenant.remove()
        assert await contents(rig, acme.tenant) == before

    async def test_whoever_works_for_a_removed_tenant_has_lost_the_lease(self, rig: Rig) -> None:
        acme = await tenant_rows(rig, "acme")
        waiting = await rig.enqueue(acme.tenant)
        assert await removed(rig, acme.tenant)
        assert not (await rig.beat(acme.ids.lease)).held
        assert not await rig.settle(done(acme.ids.lease))
        assert (await rig.claim(ring_of(waiting))).job is None
        await rig.advance(LEASE + SECOND)
        assert await rig.sweeps.sweep([acme.tenant], limit=10) == []
        assert await rig.sweeps.backlog() == []

    async def test_nothing_can_be_added_to_a_removed_tenant(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        assert await removed(rig, tenant)
        with pytest.raises(NotFound):
            async with rig.database.begin(tenant) as tx:
                await tx.documents.add(new_document(tenant))

    async def test_a_removal_that_is_rolled_back_has_removed_nothing(self, rig: Rig) -> None:
        acme = await tenant_rows(rig, "acme")
        await rig.suspend(acme.tenant)
        before = await contents(rig, acme.tenant)
        with pytest.raises(RuntimeError, match="after all not"):
            await remove_and_fail(rig, acme.tenant)
        assert await contents(rig, acme.tenant) == before

    async def test_a_name_that_was_removed_can_be_registered_anew_and_is_empty(self, rig: Rig) -> None:
        acme = await tenant_rows(rig, "acme")
        assert await removed(rig, acme.tenant)
        await rig.tenant("acme")
        tenant, *rest = await contents(rig, acme.tenant)
        assert tenant is not None
        assert rest == [[], [], [], [], [], []]


async def removed(rig: Rig, tenant: TenantId) -> bool:
    await rig.suspend(tenant)
    async with rig.database.begin(tenant) as tx:
        return await tx.tenant.remove()


async def remove_and_fail(rig: Rig, tenant: TenantId) -> None:
    async with rig.database.begin(tenant) as tx:
        assert await tx.tenant.remove()
        raise RuntimeError("after all not")
