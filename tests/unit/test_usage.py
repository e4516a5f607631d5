"""Usage: what uploads, readings and questions come to, once each; how it is told; and what upkeep does to it."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from app.domain.errors import Unavailable
from app.domain.ids import TenantId
from app.domain.usage import UsageCounts, total_usage
from app.ports.llm import LlmRefused, TokenUsage
from app.services.usage import UsageService
from tests.support.rig import LEASE, Rig, new_page, release
from tests.unit.bench import upkeep
from tests.unit.llm_desk import RECEIPT, LlmDesk
from tests.unit.served import Served, new_bytes
from tests.unit.test_llm_results import KINDS, LONG, SUMMARY

DAY = timedelta(days=1)
NOTHING = {"documents": 0, "pages": 0, "bytes": 0, "tokens": {"input": 0, "output": 0}}


async def told(web: Served, **query: Any) -> dict[str, Any]:
    answer = await web.client.get("/v1/usage", params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def used(rig: Rig, tenant: TenantId) -> UsageCounts:
    async with rig.database.begin(tenant) as tx:
        return total_usage(each.used for each in await tx.usage.by_day(date.min, date.max))


async def test_the_last_30_days_are_told_each_of_them(web: Served) -> None:
    body = await told(web)
    days = [date.fromisoformat(each.pop("day")) for each in body["data"]]
    assert days == [days[0] + n * DAY for n in range(30)]
    assert abs(days[-1] - datetime.now(UTC).date()) <= DAY
    assert body == {"data": [NOTHING] * 30, "total": NOTHING}


async def test_an_upload_counts_once_with_its_bytes_and_the_same_bytes_again_do_not(web: Served) -> None:
    content = new_bytes()
    for _ in range(3):
        await web.upload(content)
    await web.upload(new_bytes(), jobs='[{"kind": "summarize"}]')
    expected = NOTHING | {"documents": 1, "bytes": len(content)}
    body = await told(web)
    assert body["total"] == expected
    assert {key: value for key, value in body["data"][-1].items() if key != "day"} == expected


async def test_the_pages_of_a_reading_count_when_it_is_done_and_stay_when_the_document_goes(web: Served) -> None:
    document = await web.uploaded()
    assert (await told(web))["total"]["pages"] == 0
    await web.read(document)
    assert (await told(web))["total"]["pages"] == 1
    assert (await web.client.delete(f"/v1/documents/{document['id']}")).status_code == 204
    assert (await told(web))["total"]["pages"] == 1


async def test_another_tenants_usage_is_not_told(web: Served) -> None:
    await web.uploaded()
    answer = await web.client.get("/v1/usage", headers=await web.key_of("globex"))
    assert answer.json()["total"] == NOTHING


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ({"from": "2026-01-30", "to": "2026-02-02"}, "2026-01-30", "2026-02-02"),
        ({"to": "2026-01-30"}, "2026-01-01", "2026-01-30"),
        ({"from": "2026-01-30", "to": "2026-01-30"}, "2026-01-30", "2026-01-30"),
        ({"from": "9999-12-31"}, "9999-12-31", "9999-12-31"),
        ({"to": "0001-01-02"}, "0001-01-01", "0001-01-02"),
        ({"from": "2024-01-01", "to": "2024-12-31"}, "2024-01-01", "2024-12-31"),
    ],
)
async def test_a_span_of_days_can_be_asked_for(web: Served, query: dict[str, str], first: str, last: str) -> None:
    days = [each["day"] for each in (await told(web, **query))["data"]]
    assert (days[0], days[-1]) == (first, last)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"from": "2026-01-02", "to": "2026-01-01"}, "/from"),
        ({"from": "2024-01-01", "to": "2025-01-01"}, "/from"),
        ({"from": "0001-01-01"}, "/from"),
        ({"from": "yesterday"}, "/from"),
        ({"from": "2026-02-30"}, "/from"),
        ({"to": "2026-01-01T10:00:00"}, "/to"),
        ({"to": "\0"}, "/to"),
        ({"to": ""}, "/to"),
        ({"to": "99999-01-01"}, "/to"),
    ],
)
async def test_a_span_that_is_none_is_refused(web: Served, query: dict[str, str], pointer: str) -> None:
    answer = await web.client.get("/v1/usage", params=query)
    assert answer.status_code == 422, answer.text
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]


@pytest.fixture
def desk(rig: Rig) -> LlmDesk:
    return LlmDesk(rig=rig)


@pytest.mark.parametrize("script", [[SUMMARY], ["useless", SUMMARY], ["useless", "useless"]])
async def test_tokens_count_once_whether_the_job_is_done_or_has_failed(desk: LlmDesk, script: list[Any]) -> None:
    desk.llm.script = script
    job = await desk.ask(RECEIPT, "summarize")
    found = await used(desk.rig, job.tenant_id)
    assert found.input_tokens + found.output_tokens == desk.llm.spent > 0


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_paid_for_and_refused_counts(desk: LlmDesk, kind: str) -> None:
    desk.llm.script = [LlmRefused("it will not", usage=TokenUsage(input_tokens=70, output_tokens=3))]
    job = await desk.ask(RECEIPT, kind, **KINDS[kind])
    assert await used(desk.rig, job.tenant_id) == UsageCounts(input_tokens=70, output_tokens=3)


async def test_an_answer_that_a_former_attempt_paid_for_is_not_paid_for_again(desk: LlmDesk) -> None:
    desk.llm.context_tokens = 4096
    desk.llm.script = [SUMMARY, Unavailable("it fell silent")]
    document = await desk.document(*LONG)
    job, _ = await desk.run(await desk.job(document, "summarize"))
    assert (await used(desk.rig, document.tenant_id)).input_tokens > 0
    await desk.rig.advance(LEASE)
    desk.llm.rule = lambda _: SUMMARY
    job, _ = await desk.run(job)
    assert job.result is not None
    found = await used(desk.rig, document.tenant_id)
    assert found.input_tokens + found.output_tokens == desk.llm.spent


async def test_upkeep_indexes_what_was_read_before_and_folds_days_that_are_over(rig: Rig) -> None:
    tenants = [await rig.tenant(name) for name in ("acme", "bolt")]
    for tenant in tenants:
        document = await rig.document(tenant)
        async with rig.database.begin(tenant) as tx:
            await tx.pages.replace(document.id, [new_page()])
            await tx.documents.set_read(document.id, page_count=1)
            await tx.usage.add(UsageCounts(pages=1))
            await tx.usage.add(UsageCounts(pages=2))
    await upkeep(rig).keep_up()
    for tenant in tenants:
        async with rig.database.begin(tenant) as tx:
            assert await tx.search.unindexed(limit=9) == []
        # Today is not over.
        assert await UsageService(database=rig.database).fold(tenant) == 0
        assert await used(rig, tenant) == UsageCounts(pages=3)


async def test_a_lease_that_is_lost_counts_no_page(rig: Rig) -> None:
    tenant = await rig.tenant()
    document = await rig.document(tenant)
    lease = await rig.lease(await rig.enqueue(tenant, document_id=document.id))
    async with rig.database.begin(tenant) as tx:
        assert await tx.pages.draft(lease, [new_page()])
    assert await rig.settle(release(lease))
    assert await used(rig, tenant) == UsageCounts()
