"""`Webhooks`: a tenant's own, their secrets, and whether they are sent anything."""

from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.ids import JobId, TenantId, WebhookId, uuid7
from app.domain.webhooks import Event, Webhook, new_secret
from tests.support.rig import SECOND, Rig, new_delivery, new_webhook

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


async def again(rig: Rig, webhook: Webhook) -> Webhook | None:
    async with rig.database.begin(webhook.tenant_id) as tx:
        return await tx.webhooks.get(webhook.id)


async def listed(rig: Rig, tenant: TenantId, *, limit: int = 100, before: WebhookId | None = None) -> list[WebhookId]:
    async with rig.database.begin(tenant) as tx:
        return [webhook.id for webhook in await tx.webhooks.newest(limit=limit, before=before)]


class WebhooksSuite:
    async def test_a_webhook_is_as_it_was_added(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        webhook = await rig.webhook(
            tenant, url="https://example.test/ü?a=b", events=frozenset({Event.JOB_FAILED}), description="for ü"
        )
        assert await again(rig, webhook) == webhook
        assert (webhook.disabled_at, webhook.previous_secret) == (None, None)

    async def test_what_no_store_can_hold_is_left_out(self, rig: Rig) -> None:
        webhook = await rig.webhook(await rig.tenant(), description="a\0b\ud800c")
        assert await again(rig, webhook) == replace(webhook, description="abc")

    async def test_webhooks_are_listed_newest_first_and_page_by_page(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        newest = [(await rig.webhook(tenant)).id for _ in range(3)][::-1]
        assert await listed(rig, tenant) == newest
        assert await listed(rig, tenant, limit=2) == newest[:2]
        assert await listed(rig, tenant, limit=2, before=newest[1]) == newest[2:]

    async def test_a_removed_webhook_is_gone(self, rig: Rig) -> None:
        webhook = await rig.webhook(await rig.tenant())
        async with rig.database.begin(webhook.tenant_id) as tx:
            assert await tx.webhooks.remove(webhook.id)
            assert not await tx.webhooks.remove(webhook.id)
        assert await again(rig, webhook) is None

    @pytest.mark.threat(63)
    async def test_a_rotated_secret_signs_beside_the_new_one_until_the_overlap_is_over(self, rig: Rig) -> None:
        webhook, secret = await rig.webhook(await rig.tenant()), new_secret()
        async with rig.database.begin(webhook.tenant_id) as tx:
            rotated = await tx.webhooks.rotate(webhook.id, secret=secret, overlap=DAY)
        assert rotated is not None
        assert rotated.previous_until is not None
        assert rotated.secrets_at(rotated.previous_until - SECOND) == [secret, webhook.secret]
        assert rotated.secrets_at(rotated.previous_until) == [secret]
        assert await again(rig, webhook) == rotated

    @pytest.mark.threat(63)
    async def test_without_an_overlap_the_former_secret_signs_no_more(self, rig: Rig) -> None:
        webhook, secret = await rig.webhook(await rig.tenant()), new_secret()
        async with rig.database.begin(webhook.tenant_id) as tx:
            await tx.webhooks.rotate(webhook.id, secret=new_secret(), overlap=DAY)
            rotated = await tx.webhooks.rotate(webhook.id, secret=secret, overlap=timedelta())
        assert rotated is not None
        assert rotated.secrets_at(rotated.created_at) == [secret]
        assert rotated.previous_secret is None

    async def test_a_disabled_webhook_says_why_until_it_is_enabled(self, rig: Rig) -> None:
        webhook = await rig.webhook(await rig.tenant())
        async with rig.database.begin(webhook.tenant_id) as tx:
            assert await tx.webhooks.disable(webhook.id, reason="it is gone")
            assert not await tx.webhooks.disable(webhook.id, reason="twice")
        disabled = await again(rig, webhook)
        assert disabled is not None
        assert disabled.disabled_at is not None
        assert disabled.disabled_reason == "it is gone"
        async with rig.database.begin(webhook.tenant_id) as tx:
            enabled = await tx.webhooks.enable(webhook.id)
        assert enabled is not None
        assert (enabled.disabled_at, enabled.disabled_reason) == (None, None)
        assert enabled.healthy_at != webhook.healthy_at

    async def test_one_that_was_healthy_since_is_not_disabled(self, rig: Rig) -> None:
        made = new_webhook(await rig.tenant())
        webhook = replace(made, healthy_at=made.healthy_at - DAY)
        async with rig.database.begin(webhook.tenant_id) as tx:
            await tx.webhooks.add(webhook)
            assert not await tx.webhooks.disable(webhook.id, reason="", unless_healthy_since=webhook.healthy_at)
            await tx.webhooks.note_health(webhook.id)
            assert not await tx.webhooks.disable(
                webhook.id, reason="", unless_healthy_since=webhook.healthy_at + MINUTE
            )
        async with rig.database.begin(webhook.tenant_id) as tx:
            assert await tx.webhooks.disable(webhook.id, reason="", unless_healthy_since=made.created_at + DAY)

    async def test_enabling_what_is_enabled_changes_nothing(self, rig: Rig) -> None:
        webhook = await rig.webhook(await rig.tenant())
        async with rig.database.begin(webhook.tenant_id) as tx:
            assert await tx.webhooks.enable(webhook.id) == webhook

    async def test_deliveries_are_those_of_the_webhook_newest_first(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        one, other = await rig.webhook(tenant), await rig.webhook(tenant)
        await rig.enqueue(tenant)
        made = [new_delivery(one.id, event="webhook.test", data={}) for _ in range(3)]
        async with rig.database.begin(tenant) as tx:
            for job in (*made, new_delivery(other.id, event="webhook.test", data={})):
                assert await tx.jobs.add(job) is not None
            await tx.webhooks.remove(one.id)
            found = await tx.webhooks.deliveries(one.id, limit=2)
            assert [job.id for job in found] == [job.id for job in made[:0:-1]]
            rest = await tx.webhooks.deliveries(one.id, limit=2, before=found[-1].id)
            assert [job.id for job in rest] == [made[0].id]
            assert await tx.webhooks.deliveries(WebhookId(uuid7()), limit=2) == []
            assert await tx.webhooks.deliveries(one.id, limit=2, before=JobId(made[0].id)) == []
