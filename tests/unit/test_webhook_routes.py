"""Webhooks over the API: a secret shown once, addresses that are refused, and what was sent."""

from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import pytest
from standardwebhooks import Webhook as Verifier

from app.domain.doorbells import Ring
from app.domain.errors import Invalid
from app.domain.ids import JobId
from app.domain.keys import EVERYDAY, Scope
from app.domain.leases import Settlement
from app.domain.webhooks import KIND as WEBHOOK
from app.domain.webhooks import MOST
from app.services.execution import Execution
from app.settings import Settings
from app.wiring import open_sender
from app.worker.heartbeat import HeldLease, monotonic
from tests.support.receiver import receiving
from tests.support.rig import LEASE, done, fail, new_webhook
from tests.unit.served import ACME, PROBLEM, Served, served

PUBLIC = "https://[2606:4700::1]/hooks"
SHOWN_ALWAYS = {
    "id",
    "url",
    "events",
    "description",
    "created_at",
    "previous_secret_until",
    "disabled_at",
    "disabled_reason",
}


async def made(web: Served, **fields: Any) -> dict[str, Any]:
    answer = await web.client.post("/v1/webhooks", json={"url": PUBLIC} | fields)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def end(web: Served, settles: Any) -> JobId:
    """The job of a new document, with this end."""
    document = await web.uploaded()
    lease = (await web.claim(document)).lease
    settlement: Settlement = settles(lease)
    (settled,) = await _execution(web).leases.settle([settlement])
    assert settled is not None
    return lease.job_id


async def deliver(web: Served, delivery_id: str) -> None:
    """One attempt, as a worker makes it."""
    ring = Ring(ACME, JobId(UUID(delivery_id)))
    (claim,) = await _execution(web).claim([ring], kinds=frozenset({WEBHOOK}))
    job = claim.job
    assert job is not None
    await _execution(web).run(job, HeldLease(job.lease, claimed_at=monotonic(), length=LEASE))


def _execution(web: Served) -> Execution:
    return web._execution


async def test_a_webhook_is_made_with_a_secret_that_is_shown_this_once(web: Served) -> None:
    answer = await web.client.post("/v1/webhooks", json={"url": PUBLIC, "description": "for billing"})
    assert answer.status_code == 201
    body = answer.json()
    assert answer.headers["Location"] == f"/v1/webhooks/{body['id']}"
    assert set(body) == SHOWN_ALWAYS | {"secret"}
    assert (body["url"], body["description"], body["disabled_at"]) == (PUBLIC, "for billing", None)
    assert body["events"] == ["job.cancelled", "job.done", "job.failed"]
    Verifier(body["secret"])
    shown = (await web.client.get(f"/v1/webhooks/{body['id']}")).json()
    assert shown == {name: value for name, value in body.items() if name != "secret"}
    assert (await web.client.get("/v1/webhooks")).json() == {"data": [shown], "next_cursor": None}


async def test_webhooks_are_listed_newest_first_and_page_by_page(web: Served) -> None:
    ids = [(await made(web))["id"] for _ in range(3)][::-1]
    first = (await web.client.get("/v1/webhooks", params={"limit": 2})).json()
    assert [webhook["id"] for webhook in first["data"]] == ids[:2]
    rest = (await web.client.get("/v1/webhooks", params={"limit": 2, "cursor": first["next_cursor"]})).json()
    assert [webhook["id"] for webhook in rest["data"]] == ids[2:]
    assert rest["next_cursor"] is None
    assert (await web.client.get("/v1/webhooks", params={"cursor": "nonsense"})).status_code == 422


async def test_a_deleted_webhook_is_gone(web: Served) -> None:
    webhook = await made(web)
    path = f"/v1/webhooks/{webhook['id']}"
    assert (await web.client.delete(path)).status_code == 204
    for method, under in (("GET", ""), ("DELETE", ""), ("POST", "/rotate"), ("POST", "/enable"), ("POST", "/test")):
        answer = await web.client.request(method, path + under)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await web.client.get(f"{path}/deliveries")).status_code == 404


@pytest.mark.threat(62)
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "0x7f000001",
        "2130706433",
        "127.1",
        "localhost",
        "localhost.evil.test",
    ],
)
async def test_an_address_inside_is_refused_with_a_pointer_to_the_url(web: Served, host: str) -> None:
    async with receiving() as trap:
        for address in (f"http://{host}/", f"http://{host}:{trap.port}/"):
            answer = await web.client.post("/v1/webhooks", json={"url": address})
            assert answer.status_code == 422
            assert answer.headers["Content-Type"] == PROBLEM
            (fault,) = answer.json()["errors"]
            assert fault["pointer"] == "/url"
        assert trap.connections == 0
    assert (await web.client.get("/v1/webhooks")).json()["data"] == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ("", "/url"),
        ("{}", "/url"),
        ("[]", "/"),
        ("{", "/"),
        ('{"url": 7}', "/url"),
        ('{"url": "https://x", "secret": "mine"}', "/secret"),
        ('{"url": "https://x", "events": []}', "/events"),
        ('{"url": "https://x", "events": ["job.begun"]}', "/events/0"),
        ('{"url": "https://x", "description": "\\u0000"}', "/"),
        ('{"url": "https://x", "description": "' + "x" * 201 + '"}', "/description"),
        ('{"url": "https://' + "x" * 3_000 + '"}', "/url"),
        ('{"url": "https://xn--/"}', "/url"),
        ('{"url": "https://xn--a.example/"}', "/url"),
    ],
)
async def test_what_is_no_request_is_refused_with_a_pointer(web: Served, body: str, pointer: str) -> None:
    answer = await web.client.post("/v1/webhooks", content=body)
    assert answer.status_code == 422, answer.text
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]


async def test_a_body_without_end_is_not_read_to_its_end(web: Served) -> None:
    answer = await web.client.post("/v1/webhooks", content=b" " * 10_000_000)
    assert answer.status_code == 413


async def test_a_tenant_has_a_limited_number_of_webhooks(web: Served) -> None:
    for _ in range(MOST):
        await made(web)
    answer = await web.client.post("/v1/webhooks", json={"url": PUBLIC})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    others = await web.client.post("/v1/webhooks", json={"url": PUBLIC}, headers=await web.key_of("bolt"))
    assert others.status_code == 201


async def test_a_key_without_the_scope_may_look_but_not_make(web: Served) -> None:
    key = await web.runtime.tenants.issue_key(ACME, name="narrow", scopes=EVERYDAY - {Scope.WEBHOOKS_WRITE})
    header = {"Authorization": f"Bearer {key}"}
    assert (await web.client.get("/v1/webhooks", headers=header)).status_code == 200
    answer = await web.client.post("/v1/webhooks", json={"url": PUBLIC}, headers=header)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.threat(63)
async def test_a_rotation_shows_a_new_secret_and_how_long_the_former_one_signs(web: Served) -> None:
    webhook = await made(web)
    path = f"/v1/webhooks/{webhook['id']}"
    rotated = (await web.client.post(f"{path}/rotate")).json()
    assert set(rotated) == SHOWN_ALWAYS | {"secret"}
    assert rotated["secret"] != webhook["secret"]
    assert rotated["previous_secret_until"] > rotated["created_at"]
    at_once = (await web.client.post(f"{path}/rotate", json={"overlap_seconds": 0})).json()
    assert at_once["previous_secret_until"] is None
    for nonsense in ({"overlap_seconds": -1}, {"overlap_seconds": "1"}, {"days": 1}):
        assert (await web.client.post(f"{path}/rotate", json=nonsense)).status_code == 422
    assert "secret" not in (await web.client.get(path)).json()


async def test_deliveries_are_logged_with_every_attempt_and_can_be_replayed() -> None:
    async with served(webhook_allow_private=True) as web, receiving() as receiver:
        webhook = await made(web, url=receiver.url)
        job_id = await end(web, fail)
        path = f"/v1/webhooks/{webhook['id']}/deliveries"
        (waiting,) = (await web.client.get(path)).json()["data"]
        assert (waiting["event"], waiting["job_id"], waiting["state"]) == ("job.failed", str(job_id), "queued")
        assert (waiting["attempts"], waiting["status"], waiting["history"]) == (0, None, [])
        assert waiting["next_attempt_at"]

        receiver.script("500")
        await deliver(web, waiting["id"])
        (failed,) = (await web.client.get(path)).json()["data"]
        assert (failed["state"], failed["attempts"], failed["status"]) == ("queued", 1, 500)
        assert failed["error"]["code"] == "status_500"
        assert failed["next_attempt_at"] > failed["history"][0]["finished_at"]

        answer = await web.client.post(f"/v1/jobs/{waiting['id']}/cancel")
        assert answer.status_code == 200
        sent: dict[str, Any] = {}
        for status in (200, 204):
            answer = await web.client.post(f"/v1/jobs/{waiting['id']}/retry")
            assert (answer.status_code, answer.json()["state"]) == (200, "queued")
            receiver.script(str(status))
            await deliver(web, waiting["id"])
            (sent,) = (await web.client.get(path)).json()["data"]
            assert (sent["state"], sent["status"], sent["next_attempt_at"]) == ("done", status, None)
        assert [entry["outcome"] for entry in sent["history"]] == ["retry", "done", "done"]
        assert {received.headers["webhook-id"] for received in receiver.log} == {waiting["id"]}
        assert Verifier(webhook["secret"]).verify(receiver.last.body, receiver.last.headers)["type"] == "job.failed"


async def test_deliveries_are_listed_page_by_page(web: Served) -> None:
    webhook = await made(web)
    for _ in range(3):
        await end(web, done)
    path = f"/v1/webhooks/{webhook['id']}/deliveries"
    everything = (await web.client.get(path)).json()["data"]
    assert len(everything) == 3
    first = (await web.client.get(path, params={"limit": 2})).json()
    rest = (await web.client.get(path, params={"limit": 2, "cursor": first["next_cursor"]})).json()
    assert first["data"] + rest["data"] == everything
    assert rest["next_cursor"] is None


async def test_a_test_event_is_sent_whatever_the_webhook_asks_for() -> None:
    async with served(webhook_allow_private=True) as web, receiving() as receiver:
        webhook = await made(web, url=receiver.url, events=["job.failed"])
        answer = await web.client.post(f"/v1/webhooks/{webhook['id']}/test")
        job = answer.json()
        assert (answer.status_code, answer.headers["Location"]) == (202, f"/v1/jobs/{job['id']}")
        await deliver(web, job["id"])
        event = Verifier(webhook["secret"]).verify(receiver.last.body, receiver.last.headers)
        assert (event["type"], event["data"]) == ("webhook.test", {"webhook_id": webhook["id"]})
        assert (await web.client.get(f"/v1/jobs/{job['id']}")).json()["state"] == "done"


async def test_a_disabled_webhook_says_why_and_is_tested_and_sent_to_again_once_it_is_enabled() -> None:
    async with served(webhook_allow_private=True) as web, receiving() as receiver:
        webhook = await made(web, url=receiver.url)
        path = f"/v1/webhooks/{webhook['id']}"
        receiver.script("410")
        await deliver(web, (await web.client.post(f"{path}/test")).json()["id"])
        disabled = (await web.client.get(path)).json()
        assert disabled["disabled_reason"] == "the receiver answered 410 Gone"
        answer = await web.client.post(f"{path}/test")
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
        enabled = (await web.client.post(f"{path}/enable")).json()
        assert (enabled["disabled_at"], enabled["disabled_reason"]) == (None, None)
        await deliver(web, (await web.client.post(f"{path}/test")).json()["id"])
        assert len(receiver.log) == 2


async def test_a_webhook_whose_address_may_no_longer_be_sent_to_is_not_enabled(web: Served) -> None:
    webhook = new_webhook(ACME, url="http://127.0.0.1/")
    async with web.runtime.documents.database.begin(ACME) as tx:
        await tx.webhooks.add(webhook)
    answer = await web.client.post(f"/v1/webhooks/{webhook.id}/enable")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


async def test_in_production_plain_http_is_refused() -> None:
    urls: dict[str, Any] = {"database_url": "postgresql://db.test/daira", "blob_url": "s3://bucket"}
    for private, refused in ((False, True), (True, False)):
        async with AsyncExitStack() as stack:
            settings = Settings(_env_file=None, env="production", webhook_allow_private=private, **urls)
            check = open_sender(settings, stack).check("http://[2606:4700::1]/")
            if refused:
                with pytest.raises(Invalid):
                    await check
            else:
                await check
