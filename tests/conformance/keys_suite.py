"""`Keys`: found by the hash of the secret, in their own tenant alone."""

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.ids import KeyId, uuid7
from app.domain.keys import ApiKey, Scope
from app.domain.tenants import Limits
from tests.support.rig import SECOND, Rig, new_key


class KeysSuite:
    async def test_a_key_is_found_by_the_hash_of_its_secret(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        key = new_key(tenant, expires_at=datetime.now(UTC) + timedelta(days=1))
        async with rig.database.begin(tenant) as tx:
            await tx.keys.add(key)
        assert await _presented(rig, key) == key
        assert await rig.database.presented(tenant, b"another") is None
        async with rig.database.begin(tenant) as tx:
            assert await tx.keys.all() == [key]

    async def test_a_key_is_found_together_with_its_tenant(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        key = await rig.key(tenant)
        await rig.suspend(tenant)
        async with rig.database.begin(tenant) as tx:
            assert await tx.tenant.set_limits(Limits(max_queued=7, max_upload_bytes=2**40))
            its_tenant = await tx.tenant.get()
        found = await rig.database.presented(tenant, key.secret_sha256)
        assert found is not None
        assert found[:2] == (key, its_tenant)

    async def test_a_key_is_not_found_under_another_tenant(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        key = await rig.key(acme)
        assert await rig.database.presented(bolt, key.secret_sha256) is None
        async with rig.database.begin(bolt) as tx:
            assert await tx.keys.all() == []

    async def test_a_revoked_key_is_found_and_no_longer_valid(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        key, other = await rig.key(tenant), await rig.key(tenant)
        async with rig.database.begin(tenant) as tx:
            assert await tx.keys.revoke(key.id)
        revoked = await _presented(rig, key)
        assert await _presented(rig, other) == other
        assert not revoked.valid_at(key.created_at)

    async def test_revoking_twice_keeps_the_first_time(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        key = await rig.key(tenant)
        times = []
        for _ in range(2):
            async with rig.database.begin(tenant) as tx:
                assert await tx.keys.revoke(key.id)
                times += [found.revoked_at for found in await tx.keys.all()]
            await rig.advance(SECOND)
        assert times[0] is not None
        assert times[1] is not None
        # Where a rig makes time pass by shifting what is stored, the first time may be shifted, but to no later one.
        assert times[1] <= times[0]

    async def test_an_unknown_key_can_not_be_revoked(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        async with rig.database.begin(tenant) as tx:
            assert not await tx.keys.revoke(KeyId(uuid7()))

    @pytest.mark.parametrize("scopes", [{Scope.ADMIN}, {Scope.DOCUMENTS_READ, Scope.DOCUMENTS_WRITE}, set(Scope)])
    async def test_a_key_keeps_its_scopes(self, rig: Rig, scopes: set[Scope]) -> None:
        tenant = await rig.tenant()
        key = new_key(tenant, scopes=frozenset(scopes))
        async with rig.database.begin(tenant) as tx:
            await tx.keys.add(key)
        async with rig.database.begin(tenant) as tx:
            assert [found.scopes for found in await tx.keys.all()] == [frozenset(scopes)]
        assert await _presented(rig, key) == key

    async def test_a_key_is_given_an_end_and_keeps_one_that_comes_sooner(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        key, other = await rig.key(tenant), await rig.key(tenant)
        noon = key.created_at + timedelta(days=1)
        for at in (noon, noon - SECOND, noon + SECOND):
            async with rig.database.begin(tenant) as tx:
                assert await tx.keys.expire(key.id, at=at)
        assert await _presented(rig, other) == other
        assert (await _presented(rig, key)).expires_at == noon - SECOND

    async def test_an_unknown_key_can_not_be_given_an_end(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        async with rig.database.begin(tenant) as tx:
            assert not await tx.keys.expire(KeyId(uuid7()), at=datetime.now(UTC))

    async def test_the_use_of_a_key_is_noted(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        key, other = await rig.key(tenant), await rig.key(tenant)
        async with rig.database.begin(tenant) as tx:
            await tx.keys.touch(key.id)
        assert (await _presented(rig, key)).last_used_at is not None
        assert (await _presented(rig, other)).last_used_at is None


async def _presented(rig: Rig, key: ApiKey) -> ApiKey:
    found = await rig.database.presented(key.tenant_id, key.secret_sha256)
    assert found is not None
    return found[0]
