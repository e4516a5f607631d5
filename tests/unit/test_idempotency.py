"""`Idempotency-Key`: a request that is sent again is answered with what the first one made."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from app.adapters.memory.database import MemoryIdempotencyKeys
from app.domain.errors import Conflict
from app.domain.idempotency import IdempotencyKey
from app.services.uploads import JobRequest
from tests.support.rig import SECOND, Rig
from tests.unit.bench import purging
from tests.unit.served import PROBLEM, Served, new_bytes, served
from tests.unit.test_uploads import PDF, Desk

KEY = {"Idempotency-Key": "8e03978e"}


async def send(
    web: Served, content: bytes, *, name: str = "letter.pdf", headers: dict[str, str] = KEY, **fields: Any
) -> httpx.Response:
    return await web.client.post("/v1/documents", files={"file": (name, content)}, data=fields, headers=headers)


async def ask(web: Served, document: dict[str, Any], request: dict[str, Any], **headers: str) -> httpx.Response:
    return await web.client.post(f"/v1/documents/{document['id']}/jobs", json=request, headers=KEY | headers)


async def counts(web: Served) -> tuple[int, int, int]:
    """Documents, jobs, blobs."""
    documents, jobs = [(await web.client.get(path)).json()["data"] for path in ("/v1/documents", "/v1/jobs")]
    return len(documents), len(jobs), len(web.blobs)


def is_mismatch(answer: httpx.Response) -> bool:
    assert answer.headers["Content-Type"] == PROBLEM
    body = answer.json()
    assert body["errors"][0]["pointer"] == "/Idempotency-Key"
    return (answer.status_code, body["code"]) == (422, "idempotency_mismatch")


async def test_an_upload_sent_again_is_answered_as_the_first_one_and_makes_nothing(web: Served) -> None:
    content = new_bytes()
    first, again = await send(web, content), await send(web, content)
    assert [first.status_code, again.status_code] == [202, 202]
    assert again.json() == first.json()
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert await counts(web) == (1, 1, 1)


async def test_what_is_told_again_is_the_document_as_it_is_now(web: Served) -> None:
    content = new_bytes()
    first = (await send(web, content)).json()
    await web.read(first)
    again = (await send(web, content)).json()
    assert (again["id"], again["status"], again["deduplicated"]) == (first["id"], "ready", False)


async def test_what_was_known_already_is_told_so_again(web: Served) -> None:
    content = new_bytes()
    await send(web, content, headers={})
    answers = [await send(web, content) for _ in range(2)]
    assert [(answer.status_code, answer.json()["deduplicated"]) for answer in answers] == [(200, True)] * 2
    assert ["Idempotency-Replayed" in answer.headers for answer in answers] == [False, True]


async def test_what_is_left_out_is_what_it_stands_for(web: Served) -> None:
    content = new_bytes()
    await send(web, content)
    spelled_out: dict[str, Any] = {"jobs": '[ {"kind": "ocr"} ]', "metadata": "{ }", "language": "eng"}
    assert "Idempotency-Replayed" in (await send(web, content, headers=KEY, **spelled_out)).headers


@pytest.mark.threat(12)
@pytest.mark.parametrize(
    "other",
    [
        {"content": new_bytes()},
        {"name": "other.pdf"},
        {"jobs": '[{"kind": "ocr", "mode": "force"}]'},
        {"jobs": "[]"},
        {"metadata": '{"a": 1}'},
    ],
    ids=str,
)
async def test_another_upload_with_the_key_is_refused_and_leaves_nothing(web: Served, other: dict[str, Any]) -> None:
    content = new_bytes()
    await send(web, content)
    assert is_mismatch(await send(web, **{"content": content} | other))
    assert await counts(web) == (1, 1, 1)


@pytest.mark.threat(12)
async def test_a_key_of_an_upload_is_none_of_a_jobs_nor_of_another_documents(web: Served) -> None:
    content = new_bytes()
    document = (await send(web, content)).json()
    assert is_mismatch(await ask(web, document, {"kind": "ocr", "mode": "force"}))
    other = await web.uploaded()
    job = await ask(web, document, {"kind": "ocr", "mode": "force"}, **{"Idempotency-Key": "another"})
    assert job.status_code == 202
    assert is_mismatch(await ask(web, other, {"kind": "ocr", "mode": "force"}, **{"Idempotency-Key": "another"}))


@pytest.mark.threat(11)
async def test_the_same_key_of_two_tenants_is_two_keys(web: Served) -> None:
    content = new_bytes()
    mine = await send(web, content)
    theirs = await send(web, content, headers=KEY | await web.key_of("bolt"))
    other = await send(web, new_bytes(), headers=KEY | await web.key_of("core"))
    assert [answer.status_code for answer in (mine, theirs, other)] == [202, 202, 202]
    assert len({answer.json()["id"] for answer in (mine, theirs, other)}) == 3
    assert "Idempotency-Replayed" not in theirs.headers


async def test_a_job_asked_for_again_is_the_first_one_though_it_has_ended(web: Served) -> None:
    document = await web.uploaded()
    first = await ask(web, document, {"kind": "ocr", "mode": "force"})
    await web.client.post(f"/v1/jobs/{first.json()['id']}/cancel")
    again = await ask(web, document, {"mode": "force", "kind": "ocr"})
    assert (first.status_code, again.status_code) == (202, 202)
    assert (again.json()["id"], again.json()["state"]) == (first.json()["id"], "cancelled")
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert is_mismatch(await ask(web, document, {"kind": "ocr", "mode": "skip"}))


async def test_an_equal_job_that_was_there_is_told_so_again(web: Served) -> None:
    document = await web.uploaded()
    answers = [await ask(web, document, {"kind": "ocr"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert {answer.json()["id"] for answer in answers} == {document["jobs"][0]["id"]}


async def test_a_key_goes_with_its_document(web: Served) -> None:
    """What was removed leaves no trace, nor is it kept from being uploaded once more."""
    content = new_bytes()
    first = (await send(web, content)).json()
    assert (await web.client.delete(f"/v1/documents/{first['id']}")).status_code == 204
    again = await send(web, content)
    assert again.status_code == 202
    assert again.json()["id"] != first["id"]
    assert "Idempotency-Replayed" not in again.headers


async def test_a_refused_request_has_not_used_its_key(web: Served) -> None:
    content = new_bytes()
    assert (await send(web, b"plain nonsense\xff\xfe\x00")).status_code in {415, 422}
    assert (await send(web, content, language="xxx")).status_code == 422
    assert (await send(web, content, metadata="[")).status_code == 422
    assert (await send(web, content)).status_code == 202


async def test_a_request_beyond_a_limit_has_not_used_its_key() -> None:
    async with served(max_queued_jobs=1) as web:
        document = await web.uploaded()
        refused, content = {"Idempotency-Key": "refused"}, new_bytes()
        assert (await send(web, content, headers=refused)).status_code == 429
        await web.client.post(f"/v1/jobs/{document['jobs'][0]['id']}/cancel")
        answer = await send(web, content, headers=refused)
        assert (answer.status_code, "Idempotency-Replayed" in answer.headers) == (202, False)


@pytest.mark.parametrize(
    "key", [b"", b"a" * 256, b"a\tb", "ä".encode(), "\u202e".encode(), b"a\x7fb"], ids=lambda key: str(key[:12])
)
async def test_a_key_that_is_none_is_refused_by_its_name(web: Served, key: bytes) -> None:
    document = await web.uploaded()
    for path in ("/v1/documents", f"/v1/documents/{document['id']}/jobs"):
        request = web.client.build_request("POST", path, json={"kind": "ocr"})
        request.headers = httpx.Headers([*request.headers.raw, (b"Idempotency-Key", key)])
        answer = await web.client.send(request)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"].lower() == "/idempotency-key"


async def test_two_keys_are_refused(web: Served) -> None:
    headers = [
        ("Idempotency-Key", "a"),
        ("Idempotency-Key", "b"),
        ("Authorization", web.client.headers["Authorization"]),
    ]
    answer = await web.client.post("/v1/documents", files={"file": new_bytes()}, headers=headers)
    assert answer.status_code == 422
    assert "one Idempotency-Key" in answer.json()["detail"]


@pytest.mark.parametrize("key", ["a", "x" * 255, '"quoted"', "with blanks", "{}~!"])
async def test_any_printable_key_will_do(web: Served, key: str) -> None:
    content = new_bytes()
    answers = [await send(web, content, headers={"Idempotency-Key": key}) for _ in range(2)]
    assert ["Idempotency-Replayed" in answer.headers for answer in answers] == [False, True]


@pytest.mark.threat(12)
async def test_twenty_at_the_same_time_are_one_document_and_one_job(web: Served) -> None:
    content = new_bytes()
    async with asyncio.timeout(30):
        answers = await asyncio.gather(*(send(web, content) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("Idempotency-Replayed" in answer.headers for answer in answers) == 19
    assert await counts(web) == (1, 1, 1)


async def test_a_request_that_is_still_being_done_is_to_be_sent_again(
    web: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_elsewhere(*_: object) -> None:
        raise Conflict("it is being done", retry_after=SECOND)

    monkeypatch.setattr(MemoryIdempotencyKeys, "take", open_elsewhere)
    answer = await send(web, new_bytes())
    assert (answer.status_code, answer.json()["code"], answer.headers["Retry-After"]) == (409, "conflict", "1")
    assert web.blobs == []


def test_parts_in_another_order_are_the_same_request() -> None:
    once = IdempotencyKey(key="a", operation="POST /v1/documents")
    parts = {"a": 1, "b": {"c": [1, 2], "d": None}}
    turned = json.loads('{"b": {"d": null, "c": [1, 2]}, "a": 1}')
    assert once.fingerprint(parts) == once.fingerprint(turned)
    assert once.fingerprint(parts) != once.fingerprint(parts | {"a": "1"})
    assert once.fingerprint(parts) != IdempotencyKey(key="a", operation="POST /v1/jobs").fingerprint(parts)


async def test_what_was_made_and_is_gone_by_another_way_is_made_anew(rig: Rig) -> None:
    """A finished job may be pruned before its key is."""
    tenant, desk = await rig.tenant(), Desk(rig)
    once = IdempotencyKey(key="a", operation="POST /v1/documents")
    first = await desk.upload(tenant, once=once)
    async with rig.database.begin(tenant) as tx:
        await tx.idempotency_keys.answer("a", resource_id=first.document.id, made=True, document_id=None)
    assert await rig.remove(first.document)
    again = await desk.upload(tenant, once=once)
    assert not again.replayed
    assert (await desk.upload(tenant, PDF, once=once)).replayed


async def test_expired_keys_go_with_the_purge(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    await desk.upload(tenant, once=IdempotencyKey(key="a", operation="POST /v1/documents"))
    assert not await purging(rig, desk.blobs, tolerated=timedelta.max).purge()
    await rig.advance(timedelta(hours=24))
    assert not await purging(rig, desk.blobs).purge(dry_run=True)
    assert (await purging(rig, desk.blobs, tolerated=timedelta.max).purge()).keys == 1
    assert not await purging(rig, desk.blobs, tolerated=timedelta.max).purge()


async def test_a_replay_rings_for_nothing(rig: Rig) -> None:
    tenant, desk = await rig.tenant(), Desk(rig)
    once = IdempotencyKey(key="a", operation="POST /v1/documents")
    await desk.upload(tenant, once=once)
    assert len(await desk.rung()) == 1
    replayed = await desk.accept(
        await desk.receive(tenant, _chunks()), JobRequest(kind="ocr", payload={"mode": "auto"}), once=once
    )
    assert replayed.replayed
    assert await desk.rung() == []


async def _chunks() -> Any:
    yield PDF
