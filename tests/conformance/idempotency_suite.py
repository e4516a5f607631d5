"""Idempotency keys: of all requests with one key, one is done; the others wait for it and learn what it has come to."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import pytest

from app.domain.idempotency import LIFETIME, KeptResponse
from app.domain.ids import DocumentId, TenantId, uuid7
from tests.support.rig import SECOND, Rig

ONE, ANOTHER = b"one", b"another"


class Refused(Exception):
    """What goes wrong after the key was taken."""


async def take(rig: Rig, tenant: TenantId, *, key: str = "a key", fingerprint: bytes = ONE) -> KeptResponse | None:
    async with rig.database.begin(tenant) as tx:
        return await tx.idempotency_keys.take(key, fingerprint)


async def use(
    rig: Rig,
    tenant: TenantId,
    *,
    key: str = "a key",
    fingerprint: bytes = ONE,
    made: bool = True,
    document_id: DocumentId | None = None,
) -> KeptResponse | UUID:
    """What the key has come to; or the id of what is made now, where it was free."""
    resource_id = uuid7()
    async with rig.database.begin(tenant) as tx:
        answered = await tx.idempotency_keys.take(key, fingerprint)
        if answered is not None:
            return answered
        await asyncio.sleep(0)  # lets the others begin
        await tx.idempotency_keys.answer(key, resource_id=resource_id, made=made, document_id=document_id)
    return resource_id


async def fail_with_it(rig: Rig, tenant: TenantId, before: Callable[[], Awaitable[object]]) -> None:
    async with rig.database.begin(tenant) as tx:
        assert await tx.idempotency_keys.take("a key", ONE) is None
        await tx.idempotency_keys.answer("a key", resource_id=uuid7(), made=True)
        await before()
        raise Refused


async def nothing() -> None: ...


class IdempotencySuite:
    @pytest.mark.parametrize("made", [True, False])
    async def test_a_key_that_was_used_tells_what_it_has_come_to(self, rig: Rig, *, made: bool) -> None:
        tenant = await rig.tenant()
        resource_id = await use(rig, tenant, made=made)
        assert isinstance(resource_id, UUID)
        answered = KeptResponse(fingerprint=ONE, resource_id=resource_id, made=made)
        assert await take(rig, tenant) == answered
        assert await take(rig, tenant, fingerprint=ANOTHER) == answered

    async def test_other_keys_are_free(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await use(rig, tenant)
        for key in ("A key", "a key ", "a", "x" * 255, "'; --"):
            assert await take(rig, tenant, key=key) is None

    @pytest.mark.threat(11)
    async def test_a_key_is_a_tenants_own(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        mine = await use(rig, acme)
        theirs = await use(rig, bolt, fingerprint=ANOTHER)
        assert isinstance(theirs, UUID)
        assert mine != theirs
        assert await take(rig, bolt) == KeptResponse(fingerprint=ANOTHER, resource_id=theirs, made=True)

    async def test_a_request_that_failed_has_not_used_its_key(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        with pytest.raises(Refused):
            await fail_with_it(rig, tenant, nothing)
        assert await take(rig, tenant, fingerprint=ANOTHER) is None

    @pytest.mark.threat(12)
    async def test_of_many_at_the_same_time_one_is_done_and_the_others_learn_of_it(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*(use(rig, tenant) for _ in range(8)))
        made = [answer for answer in answers if isinstance(answer, UUID)]
        assert len(made) == 1
        assert [answer.resource_id for answer in answers if isinstance(answer, KeptResponse)] == made * 7

    async def test_an_open_request_that_fails_leaves_the_key_to_who_waits_for_it(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        waiters: list[asyncio.Task[KeptResponse | UUID]] = []

        async def another_comes() -> None:
            waiters.append(asyncio.create_task(use(rig, tenant)))
            finished, _ = await asyncio.wait(waiters, timeout=0.2)
            assert not finished

        async with asyncio.timeout(10):
            with pytest.raises(Refused):
                await fail_with_it(rig, tenant, another_comes)
            assert isinstance(await waiters[0], UUID)

    async def test_a_key_is_free_again_after_a_day(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        first = await use(rig, tenant)
        await rig.advance(LIFETIME - timedelta(minutes=1))
        assert isinstance(await use(rig, tenant), KeptResponse)
        await rig.advance(timedelta(minutes=1))
        second = await use(rig, tenant, fingerprint=ANOTHER)
        assert isinstance(second, UUID)
        assert second != first
        assert await take(rig, tenant) == KeptResponse(fingerprint=ANOTHER, resource_id=second, made=True)

    async def test_many_at_the_moment_of_its_end_use_it_once(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await use(rig, tenant)
        await rig.advance(LIFETIME)
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*(use(rig, tenant) for _ in range(8)))
        assert sum(isinstance(answer, UUID) for answer in answers) == 1

    async def test_a_key_goes_with_its_document(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        mine, other = await rig.document(tenant), await rig.document(tenant)
        await use(rig, tenant, key="mine", document_id=mine.id)
        await use(rig, tenant, key="other", document_id=other.id)
        assert await rig.remove(mine)
        assert await take(rig, tenant, key="mine") is None
        assert await take(rig, tenant, key="other") is not None

    async def test_a_released_key_is_free(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await use(rig, tenant)
        async with rig.database.begin(tenant) as tx:
            assert await tx.idempotency_keys.take("a key", ONE) is not None
            await tx.idempotency_keys.release("a key")
            await tx.idempotency_keys.release("unknown")
            assert await tx.idempotency_keys.take("a key", ANOTHER) is None

    async def test_expired_keys_are_removed_so_many_at_a_time(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        for tenant in (acme, bolt):
            for n in range(5):
                await use(rig, tenant, key=f"key {n}")
        await rig.advance(LIFETIME - SECOND)
        await use(rig, acme, key="young")
        await rig.advance(SECOND)
        counts = []
        for _ in range(4):
            async with rig.database.begin(acme) as tx:
                counts.append(await tx.idempotency_keys.remove_expired(at_most=2))
        assert counts == [2, 2, 1, 0]
        assert isinstance(await take(rig, acme, key="young"), KeptResponse)
        async with rig.database.begin(bolt) as tx:
            assert await tx.idempotency_keys.remove_expired(at_most=100) == 5
