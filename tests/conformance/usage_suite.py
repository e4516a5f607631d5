"""`Usage`: what was used is counted once, by day, and outlives what it was used for."""

import asyncio
from datetime import UTC, date, datetime, timedelta

from app.domain.ids import TenantId
from app.domain.usage import DailyUsage, UsageCounts, total_usage
from tests.conformance.answers_suite import keep
from tests.conformance.answers_suite import started as claimed
from tests.support.rig import Rig, new_answer, release

ONE = UsageCounts(documents=1, pages=2, bytes=3, input_tokens=4, output_tokens=5)
DAY = timedelta(days=1)


async def add(rig: Rig, tenant: TenantId, *used: UsageCounts) -> None:
    for each in used:
        async with rig.database.begin(tenant) as tx:
            await tx.usage.add(each)


async def days(rig: Rig, tenant: TenantId, *, first: date = date.min, last: date = date.max) -> list[DailyUsage]:
    async with rig.database.begin(tenant) as tx:
        return list(await tx.usage.by_day(first, last))


async def today_of(rig: Rig, tenant: TenantId) -> date:
    """By the store's own clock."""
    (only,) = await days(rig, tenant)
    return only.day


async def fold(rig: Rig, tenant: TenantId, *, before: date) -> int:
    async with rig.database.begin(tenant) as tx:
        return await tx.usage.fold(before=before)


class UsageSuite:
    async def test_a_day_has_the_sum_of_what_was_used_on_it(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        assert await days(rig, tenant) == []
        await add(rig, tenant, ONE, UsageCounts(pages=40), UsageCounts())
        (only,) = await days(rig, tenant)
        assert only.used == total_usage([ONE, UsageCounts(pages=40)])
        assert abs(only.day - datetime.now(UTC).date()) <= DAY

    async def test_both_ends_of_a_span_are_within_it(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await add(rig, tenant, ONE)
        today = await today_of(rig, tenant)
        for first, last, found in ((0, 0, 1), (-1, 1, 1), (1, 2, 0), (-2, -1, 0)):
            assert len(await days(rig, tenant, first=today + first * DAY, last=today + last * DAY)) == found

    async def test_what_is_rolled_back_was_not_used(self, rig: Rig) -> None:
        tenant = await rig.tenant()

        async def fail() -> None:
            async with rig.database.begin(tenant) as tx:
                await tx.usage.add(ONE)
                raise ZeroDivisionError

        try:
            await fail()
        except ZeroDivisionError:
            assert await days(rig, tenant) == []

    async def test_another_tenants_usage_is_its_own(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        await add(rig, acme, ONE)
        assert await days(rig, bolt) == []
        assert await fold(rig, bolt, before=date.max) == 0
        assert len(await days(rig, acme)) == 1

    async def test_it_outlives_the_document_and_goes_with_the_tenant(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        await add(rig, tenant, ONE)
        assert await rig.remove(document)
        assert [each.used for each in await days(rig, tenant)] == [ONE]
        await rig.suspend(tenant)
        async with rig.database.begin(tenant) as tx:
            assert await tx.tenant.remove()
        assert await days(rig, await rig.tenant()) == []

    async def test_a_day_that_is_over_is_folded_once_and_says_the_same(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await add(rig, tenant, ONE, ONE, ONE)
        before = await days(rig, tenant)
        assert await fold(rig, tenant, before=before[0].day) == 0, "it is not over"
        assert await fold(rig, tenant, before=before[0].day + DAY) == 2
        assert await fold(rig, tenant, before=before[0].day + DAY) == 0
        assert await days(rig, tenant) == before

    async def test_two_that_fold_at_once_count_everything_once(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await add(rig, tenant, *[ONE] * 20)
        before = await days(rig, tenant)
        folded = await asyncio.gather(*[fold(rig, tenant, before=before[0].day + DAY) for _ in range(4)])
        assert sum(folded) == 19
        assert await days(rig, tenant) == before

    async def test_an_answer_is_paid_for_once_however_often_it_is_kept(self, rig: Rig) -> None:
        lease = await claimed(rig)
        assert await keep(rig, lease, new_answer(question="a", input_tokens=100, output_tokens=20))
        assert await keep(rig, lease, new_answer(question="a", input_tokens=999, output_tokens=999))
        assert await keep(rig, lease, new_answer(question="b", text=None, fault="useless", input_tokens=7))
        expected = UsageCounts(input_tokens=107, output_tokens=40)
        assert [each.used for each in await days(rig, lease.tenant_id)] == [expected]
        assert await rig.settle(release(lease))
        assert not await keep(rig, lease, new_answer(question="c"))
        assert [each.used for each in await days(rig, lease.tenant_id)] == [expected]
