"""A tenant's limits as a client meets them: refused with the reason and the time to come back, and nothing stored."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from app.adapters.memory.database import MemoryTenantRow
from app.domain.errors import Invalid, NotFound
from app.domain.ids import TenantId, uuid7
from app.domain.tenants import Limits, Tenant, TenantState
from app.services import limits
from app.services.limits import RateLimiter
from tests.unit.served import ACME, Served, served
from tests.unit.test_errors import problem


async def limit(web: Served, **changes: int | None) -> None:
    await web.runtime.tenants.limit(ACME, changes)


async def stored(web: Served) -> tuple[int, int, int]:
    """Documents, jobs, blobs."""
    async with web.runtime.tenants.database.begin(ACME) as tx:
        return len(await tx.documents.newest(limit=100)), len(await tx.jobs.newest()), len(web.blobs)


def rate(answer: httpx.Response) -> tuple[int, int, int]:
    """Limit, remaining, seconds: read as the draft writes them."""
    policy = re.fullmatch(r'"requests";q=(\d+);w=60', answer.headers["RateLimit-Policy"])
    service = re.fullmatch(r'"requests";r=(\d+);t=(\d+)', answer.headers["RateLimit"])
    assert policy
    assert service
    return int(policy[1]), int(service[1]), int(service[2])


@pytest.mark.threat(67)
async def test_an_upload_beyond_the_queue_limit_is_a_429_and_nothing_of_it_is_stored(web: Served) -> None:
    await limit(web, max_queued=2)
    for _ in range(2):
        await web.uploaded()
    answer = await web.upload()
    assert problem(answer)["code"] == "too_many_requests"
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) == limits.QUEUE_RETRY_AFTER.total_seconds()
    assert await stored(web) == (2, 2, 2)


async def test_an_upload_with_more_jobs_than_there_is_room_for_is_refused_whole(web: Served) -> None:
    await limit(web, max_queued=2)
    jobs = '[{"kind": "ocr"}, {"kind": "ocr", "mode": "force"}, {"kind": "ocr", "mode": "skip"}]'
    assert (await web.upload(jobs=jobs)).status_code == 429
    assert await stored(web) == (0, 0, 0)
    assert (await web.upload(jobs='[{"kind": "ocr"}, {"kind": "ocr", "mode": "skip"}]')).status_code == 202


async def test_a_job_request_beyond_the_queue_limit_is_a_429_and_an_equal_one_still_a_200(web: Served) -> None:
    document = await web.uploaded()
    await limit(web, max_queued=1)
    path = f"/v1/documents/{document['id']}/jobs"
    assert (await web.client.post(path, json={"kind": "ocr", "mode": "force"})).status_code == 429
    assert (await web.client.post(path, json={"kind": "ocr"})).status_code == 200
    assert await stored(web) == (1, 1, 1)


async def test_the_same_bytes_again_need_no_room(web: Served) -> None:
    await limit(web, max_queued=1)
    await web.uploaded(content=b"%PDF-1.7 one")
    assert (await web.upload(b"%PDF-1.7 one")).status_code == 200


async def test_a_job_that_ends_makes_room(web: Served) -> None:
    await limit(web, max_queued=1)
    document = await web.uploaded()
    assert (await web.upload()).status_code == 429
    await web.read(document)
    assert (await web.upload()).status_code == 202


async def test_a_running_job_counts_as_well(web: Served) -> None:
    await limit(web, max_queued=1)
    await web.claim(await web.uploaded())
    assert (await web.upload()).status_code == 429


async def test_where_a_tenant_has_no_queue_limit_the_settings_hold() -> None:
    async with served(max_queued_jobs=1) as web:
        await web.uploaded()
        assert (await web.upload()).status_code == 429
        await limit(web, max_queued=2)
        assert (await web.upload()).status_code == 202
        await limit(web, max_queued=None)
        assert (await web.upload()).status_code == 429


async def test_far_from_its_limit_a_tenant_is_not_locked(web: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock would put a tenant's uploads in a row."""
    locks = 0
    lock = MemoryTenantRow.lock

    async def counted(row: MemoryTenantRow) -> Tenant | None:
        nonlocal locks
        locks += 1
        return await lock(row)

    await limit(web, max_queued=limits.LOCK_WITHIN + 2)
    monkeypatch.setattr(MemoryTenantRow, "lock", counted)
    await web.uploaded()
    assert locks == 0
    await web.uploaded()
    assert locks == 1


async def test_an_upload_for_a_tenant_that_is_erased_meanwhile_leaves_no_bytes(web: Served) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%PDF-1.7 ' + b"x" * 5000
        await web.runtime.erasure.erase(ACME)
        yield b"\r\n--x--\r\n"

    answer = await web.form(body())
    assert problem(answer)["code"] == "not_found"
    assert web.blobs == []


async def test_a_tenants_own_upload_limit_wins_and_is_a_413_while_streaming(web: Served) -> None:
    await limit(web, max_upload_bytes=1000)
    taken = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal taken
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%PDF-1.7 '
        while True:
            taken += 500
            yield b"x" * 500

    answer = await web.form(body())
    assert (answer.status_code, problem(answer)["code"]) == (413, "payload_too_large")
    assert "1,000" in answer.text
    assert taken <= 2000
    assert await stored(web) == (0, 0, 0)


async def test_a_tenants_own_upload_limit_may_be_more_than_the_settings() -> None:
    async with served(max_upload_bytes=100) as web:
        content = b"%PDF-1.7 " + b"x" * 200
        assert (await web.upload(content)).status_code == 413
        await limit(web, max_upload_bytes=1000)
        assert (await web.upload(content)).status_code == 202


async def test_every_answer_to_a_known_caller_tells_the_rate(web: Served) -> None:
    document = await web.uploaded()
    answers = [
        await web.client.get("/v1/me"),
        await web.client.get("/v1/documents", params={"limit": 0}),
        await web.client.get(f"/v1/documents/{uuid7()}"),
        await web.client.get(f"/v1/documents/{document['id']}/text"),
        await web.client.delete(f"/v1/documents/{document['id']}"),
        await web.upload(b"MZ\0\1"),
    ]
    assert [answer.status_code for answer in answers] == [200, 422, 404, 409, 204, 415]
    for answer in answers:
        most, remaining, seconds = rate(answer)
        assert most == 100_000
        assert 0 < remaining < most
        assert seconds == 1


async def test_an_unforeseen_error_tells_the_rate_as_well(web: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(type(web.runtime.jobs), "newest")
    answer = await web.client.get("/v1/jobs")
    assert answer.status_code == 500
    assert rate(answer)[0] == 100_000


async def test_who_is_not_known_is_told_no_rate(web: Served) -> None:
    answer = await web.client.get("/v1/me", headers={"Authorization": "Bearer daira_acme_wrong"})
    assert answer.status_code == 401
    assert "RateLimit" not in answer.headers
    assert "RateLimit" not in (await web.client.get("/healthz")).headers


@pytest.mark.threat(66)
async def test_beyond_the_rate_is_a_429_that_tells_when_to_come_back(web: Served) -> None:
    await limit(web, requests_per_minute=3)
    assert [rate(await web.client.get("/v1/me"))[1] for _ in range(3)] == [2, 1, 0]
    answer = await web.client.get("/v1/me")
    assert (answer.status_code, problem(answer)["code"]) == (429, "too_many_requests")
    most, remaining, seconds = rate(answer)
    assert (most, remaining) == (3, 0)
    assert 15 <= seconds <= 20
    # The draft: not before the end of the window that is told.
    assert int(answer.headers["Retry-After"]) == seconds


@pytest.mark.threat(66)
async def test_the_rate_is_the_tenants_whatever_key_it_uses_and_no_other_tenants(web: Served) -> None:
    await limit(web, requests_per_minute=2)
    second = {"Authorization": f"Bearer {await web.runtime.tenants.issue_key(ACME, name='another')}"}
    other = await web.key_of("other")
    assert (await web.client.get("/v1/me")).status_code == 200
    assert (await web.client.get("/v1/me", headers=second)).status_code == 200
    assert (await web.client.get("/v1/me", headers=second)).status_code == 429
    assert (await web.client.get("/v1/me", headers=other | {"X-Forwarded-For": "1.2.3.4"})).status_code == 200


async def test_wrong_keys_use_nothing_of_a_tenants_rate(web: Served) -> None:
    await limit(web, requests_per_minute=1)
    for _ in range(5):
        wrong = await web.client.get("/v1/me", headers={"Authorization": "Bearer daira_acme_wrong"})
        assert wrong.status_code == 401
    assert (await web.client.get("/v1/me")).status_code == 200


async def test_what_is_refused_for_its_scope_uses_the_rate(web: Served) -> None:
    await limit(web, requests_per_minute=1)
    key = await web.runtime.tenants.issue_key(ACME, name="plain")
    headers = {"Authorization": f"Bearer {key}"}
    assert (await web.client.post(f"/v1/jobs/{uuid7()}/cancel", headers=headers)).status_code == 404
    assert (await web.client.get("/v1/me", headers=headers)).status_code == 429


async def test_the_rate_comes_back_with_time() -> None:
    now = 1000.0
    async with served(requests_per_minute=1) as web:
        object.__setattr__(web.runtime, "rates", RateLimiter(lambda: now))
        assert [(await web.client.get("/v1/me")).status_code for _ in range(2)] == [200, 429]
        now += 60
        assert (await web.client.get("/v1/me")).status_code == 200


async def test_limits_are_changed_one_by_one(web: Served) -> None:
    tenants = web.runtime.tenants
    assert (await tenants.limit(ACME, {})).limits == Limits()
    assert (await tenants.limit(ACME, {"max_queued": 5, "max_running": 1})).limits == Limits(
        max_queued=5, max_running=1
    )
    changed = await tenants.limit(ACME, {"max_running": None, "requests_per_minute": 9})
    assert changed.limits == Limits(max_queued=5, requests_per_minute=9)
    assert changed.state is TenantState.ACTIVE


@pytest.mark.parametrize("value", [0, -1, 2**31])
async def test_a_limit_that_is_none_is_refused_and_nothing_changed(web: Served, value: int) -> None:
    tenants = web.runtime.tenants
    with pytest.raises(Invalid, match="requests_per_minute is a number from 1 to"):
        await tenants.limit(ACME, {"max_queued": 5, "requests_per_minute": value})
    assert (await tenants.limit(ACME, {})).limits == Limits()
    assert (await tenants.limit(ACME, {"max_upload_bytes": 2**40})).limits.max_upload_bytes == 2**40


async def test_a_tenant_that_is_not_there_has_no_limits(web: Served) -> None:
    with pytest.raises(NotFound):
        await web.runtime.tenants.limit(TenantId("nobody"), {"max_queued": 5})
