"""A tenant is erased: rows and bytes, also those that come meanwhile, and again where it was cut off."""

import pytest
from typing_extensions import override

from app.adapters.memory.blobs import MemoryBlobs
from app.domain.errors import Conflict, NotFound, Unavailable
from app.domain.ids import TenantId
from app.domain.tenants import TenantState
from app.services import erasure
from app.services.erasure import TenantEraser
from tests.support.rig import Rig
from tests.unit.test_uploads import Desk

ACME, BOLT = TenantId("acme"), TenantId("bolt")


async def desk_with(rig: Rig, *, documents: int = 3) -> Desk:
    desk = Desk(rig)
    for tenant in (ACME, BOLT):
        await rig.tenant(tenant)
        await rig.key(tenant)
        for n in range(documents):
            await desk.upload(tenant, b"%%PDF-1.7 %d" % n)
    return desk


async def test_nothing_of_the_tenant_is_left_and_all_of_the_others(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "AT_A_TIME", 2)
    desk = await desk_with(rig, documents=5)
    await TenantEraser(database=rig.database, blobs=desk.blobs).erase(ACME)
    assert await desk.counts(ACME) == (0, 0, 5)
    assert await desk.counts(BOLT) == (5, 5, 5)
    async with rig.database.begin(ACME) as tx:
        assert await tx.tenant.get() is None
        assert await tx.keys.all() == []


async def test_erasing_again_or_what_never_was_is_not_found(rig: Rig) -> None:
    desk = await desk_with(rig)
    erase = TenantEraser(database=rig.database, blobs=desk.blobs).erase
    await erase(ACME)
    for tenant in (ACME, TenantId("nobody")):
        with pytest.raises(NotFound, match=f"there is no tenant {tenant}"):
            await erase(tenant)


async def test_the_tenant_is_suspended_before_anything_is_deleted(rig: Rig) -> None:
    desk = await desk_with(rig)
    states: list[TenantState] = []

    class Watching(MemoryBlobs):
        @override
        async def delete_all(self, tenant_id: TenantId) -> None:
            async with rig.database.begin(tenant_id) as tx:
                if tenant := await tx.tenant.get():
                    states.append(tenant.state)

    await TenantEraser(database=rig.database, blobs=Watching()).erase(ACME)
    assert states == [TenantState.SUSPENDED]
    assert (await desk.counts(BOLT))[0] == 3


async def test_an_erasure_that_is_cut_off_can_be_asked_for_again(rig: Rig) -> None:
    desk = await desk_with(rig)

    class Failing(MemoryBlobs):
        @override
        async def delete_all(self, tenant_id: TenantId) -> None:
            raise Unavailable("the disk is away")

    with pytest.raises(Unavailable):
        await TenantEraser(database=rig.database, blobs=Failing()).erase(ACME)
    await TenantEraser(database=rig.database, blobs=desk.blobs).erase(ACME)
    assert await desk.counts(ACME) == (0, 0, 3)


async def test_a_tenant_that_is_resumed_meanwhile_is_not_removed_and_that_is_told(rig: Rig) -> None:
    desk = await desk_with(rig)

    class Resuming(MemoryBlobs):
        @override
        async def delete_all(self, tenant_id: TenantId) -> None:
            await rig.resume(tenant_id)

    with pytest.raises(Conflict, match="resumed meanwhile"):
        await TenantEraser(database=rig.database, blobs=Resuming()).erase(ACME)
    await TenantEraser(database=rig.database, blobs=desk.blobs).erase(ACME)
    assert await desk.counts(ACME) == (0, 0, 3)


async def test_what_an_upload_stores_while_rows_are_deleted_goes_too(rig: Rig) -> None:
    desk = await desk_with(rig)

    class Uploading(MemoryBlobs):
        @override
        async def delete_all(self, tenant_id: TenantId) -> None:
            await desk.blobs.delete_all(tenant_id)
            async with rig.database.begin(tenant_id) as tx:
                registered = await tx.tenant.get()
            if registered:  # let in before it was suspended, accepted before the row is gone
                await desk.upload(tenant_id, b"%PDF-1.7 late")

    await TenantEraser(database=rig.database, blobs=Uploading()).erase(ACME)
    assert await desk.counts(ACME) == (0, 0, 3)
