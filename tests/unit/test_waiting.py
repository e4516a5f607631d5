"""`Prefer: wait=N`, and answers that a client has already."""

import asyncio
from typing import Any

import pytest

from app.web.waiting import LONGEST_HEADER, parse_wait
from tests.unit.served import Served
from tests.unit.test_waiting_cancelled import Client
from tests.unit.waiting import until

GRANTED = {
    "wait=5": 5,
    "WAIT = 5": 5,
    'wait="5"': 5,
    "wait=5; foo=bar": 5,
    "respond-async, wait=5": 5,
    'handling="a, wait=9", wait=5': 5,
    "return=minimal,wait=007": 7,
    "wait=60": 60,
    "wait=61": 60,
    "wait=999999999999999999": 60,
    "wait=0": 0,
    "wait=5, wait=9": 5,
}
IGNORED = [
    "",
    "wait",
    "wait=",
    "wait=-1",
    "wait=1.5",
    "wait=soon",
    "wait=٥",
    "await=5",
    "wait5=5",
    "wait=5s",
    'wait="5',
    "wait=soon, wait=5",
    "wait=1e3",
    ",,;=",
    '"wait=5"',
    "wait=" + "9" * 400,
    "x" * LONGEST_HEADER + ", wait=5",
]


@pytest.mark.parametrize(("header", "seconds"), GRANTED.items())
def test_a_wish_is_granted_up_to_a_minute(header: str, seconds: int) -> None:
    assert parse_wait(header).seconds == seconds
    assert parse_wait(header).headers == {"Preference-Applied": f"wait={seconds}"}


@pytest.mark.parametrize("header", IGNORED)
def test_what_is_no_wish_is_ignored(header: str) -> None:
    assert parse_wait(header).seconds is None
    assert parse_wait(header).headers == {}


def job_of(document: dict[str, Any]) -> str:
    return f"/v1/jobs/{document['jobs'][0]['id']}"


async def test_a_wait_asked_for_as_a_preference_is_answered_when_the_job_ends(web: Served) -> None:
    document = await web.uploaded()
    asking = asyncio.create_task(web.client.get(job_of(document), headers={"Prefer": "wait=60"}))
    await until(lambda: bool(web.runtime.jobs.watching._watchers))
    await web.read(document)
    answer = await asking
    assert (answer.status_code, answer.json()["state"]) == (200, "done")
    assert answer.headers["Preference-Applied"] == "wait=60"


async def test_a_wait_that_runs_out_is_answered_with_the_job_as_it_is(web: Served) -> None:
    document = await web.uploaded()
    answer = await web.client.get(job_of(document), headers={"Prefer": "wait=1"})
    assert (answer.status_code, answer.json()["state"]) == (200, "queued")
    # What the query says is no preference, and counts.
    answer = await web.client.get(job_of(document), params={"wait": 0.1}, headers={"Prefer": "wait=60"})
    assert (answer.json()["state"], "Preference-Applied" in answer.headers) == ("queued", False)


@pytest.mark.parametrize("prefer", ["wait=soon", "respond-async"])
async def test_a_wish_that_makes_no_sense_is_answered_at_once(web: Served, prefer: str) -> None:
    document = await web.uploaded()
    answer = await web.client.get(job_of(document), headers={"Prefer": prefer})
    assert (answer.status_code, answer.json()["state"]) == (200, "queued")
    assert "Preference-Applied" not in answer.headers


async def test_an_upload_that_waits_is_answered_as_ever_with_its_jobs_as_they_are_then(web: Served) -> None:
    file = {"file": ("a.pdf", b"%PDF-1.7 waited for")}
    asking = asyncio.create_task(web.client.post("/v1/documents", files=file, headers={"Prefer": "wait=60"}))
    await until(lambda: bool(web.runtime.jobs.watching._watchers))
    (document,) = (await web.client.get("/v1/documents")).json()["data"]
    await web.read(document)
    answer = await asking
    assert answer.status_code == 202
    assert answer.headers["Location"] == f"/v1/documents/{document['id']}"
    assert answer.headers["Preference-Applied"] == "wait=60"
    assert answer.json() == (await web.client.get(f"/v1/documents/{document['id']}")).json()
    assert (answer.json()["status"], answer.json()["jobs"][0]["state"]) == ("ready", "done")


async def test_an_upload_whose_wait_runs_out_is_accepted_all_the_same(web: Served) -> None:
    file = {"file": ("a.pdf", b"%PDF-1.7 waited for in vain")}
    answer = await web.client.post("/v1/documents", files=file, headers={"Prefer": "wait=1"})
    assert (answer.status_code, answer.json()["jobs"][0]["state"]) == (202, "queued")
    again = await web.client.post("/v1/documents", files=file, headers={"Prefer": "wait=1"})
    assert (again.status_code, again.json()["deduplicated"]) == (200, True)


async def test_an_upload_whose_document_is_deleted_while_it_waits_was_accepted(
    web: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.events.watcher.CHECK_EVERY", 0.05)
    file = {"file": ("a.pdf", b"%PDF-1.7 deleted meanwhile")}
    asking = asyncio.create_task(web.client.post("/v1/documents", files=file, headers={"Prefer": "wait=60"}))
    await until(lambda: any(watcher._followers for watcher in web.runtime.jobs.watching._watchers.values()))
    (document,) = (await web.client.get("/v1/documents")).json()["data"]
    await web.client.delete(f"/v1/documents/{document['id']}")
    answer = await asking
    assert (answer.status_code, answer.json()["id"]) == (202, document["id"])


async def test_a_job_request_that_waits_is_answered_as_ever_with_the_job_as_it_is_then(web: Served) -> None:
    document = await web.uploaded()
    await web.read(document)
    address = f"/v1/documents/{document['id']}/jobs"
    asked = {"json": {"kind": "ocr", "mode": "force"}, "headers": {"Prefer": "wait=60"}}
    asking = asyncio.create_task(web.client.post(address, **asked))  # type: ignore[arg-type]
    await until(lambda: bool(web.runtime.jobs.watching._watchers))
    (job,) = (await web.client.get("/v1/jobs", params={"state": "queued"})).json()["data"]
    await web.client.post(f"/v1/jobs/{job['id']}/cancel")
    answer = await asking
    assert (answer.status_code, answer.json()["state"]) == (202, "cancelled")
    assert answer.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert answer.headers["Preference-Applied"] == "wait=60"


async def test_a_client_that_leaves_while_it_waits_cancels_nothing(web: Served) -> None:
    document = await web.uploaded()
    client = Client()
    waiting = client.get(web, f"{job_of(document)}?wait=60")
    await until(lambda: bool(web.runtime.jobs.watching._watchers))
    client.left.set()
    await waiting
    await until(lambda: not web.runtime.jobs.watching._watchers)
    assert (await web.client.get(job_of(document))).json()["state"] == "queued"
    await web.read(document)
    assert (await web.client.get(job_of(document))).json()["state"] == "done"


async def test_what_the_client_has_already_is_not_sent_again(web: Served) -> None:
    document = await web.uploaded()
    tag = ""
    for address in (job_of(document), f"/v1/documents/{document['id']}"):
        first = await web.client.get(address)
        tag = first.headers["ETag"]
        assert tag.startswith('"')
        assert first.headers["Cache-Control"] == "private, no-cache"
        for named in (tag, f'"other", {tag}', f"W/{tag}", "*"):
            same = await web.client.get(address, headers={"If-None-Match": named})
            assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
            assert same.headers["Cache-Control"] == "private, no-cache"
        other = await web.client.get(address, headers={"If-None-Match": '"other"'})
        assert (other.status_code, other.json()) == (200, first.json())
    job_tag = (await web.client.get(job_of(document))).headers["ETag"]
    await web.read(document)
    changed = await web.client.get(job_of(document), headers={"If-None-Match": job_tag})
    assert (changed.status_code, changed.json()["state"]) == (200, "done")
    changed = await web.client.get(f"/v1/documents/{document['id']}", headers={"If-None-Match": tag})
    assert (changed.status_code, changed.json()["status"]) == (200, "ready")


async def test_a_client_can_wait_for_what_it_does_not_have_yet(web: Served) -> None:
    document = await web.uploaded()
    tag = (await web.client.get(job_of(document))).headers["ETag"]
    headers = {"If-None-Match": tag, "Prefer": "wait=1"}
    same = await web.client.get(job_of(document), headers=headers)
    assert (same.status_code, same.headers["Preference-Applied"]) == (304, "wait=1")
    asking = asyncio.create_task(web.client.get(job_of(document), headers=headers | {"Prefer": "wait=60"}))
    await until(lambda: bool(web.runtime.jobs.watching._watchers))
    await web.read(document)
    assert ((await asking).status_code, (await asking).json()["state"]) == (200, "done")


async def test_an_answer_of_one_tenants_is_no_match_for_another(web: Served) -> None:
    document = await web.uploaded()
    bolt = await web.key_of("bolt")
    for named in ("*", (await web.client.get(job_of(document))).headers["ETag"]):
        answer = await web.client.get(job_of(document), headers=bolt | {"If-None-Match": named})
        assert answer.status_code == 404


@pytest.mark.parametrize("method", ["HEAD", "PUT"])
async def test_other_methods_are_answered_with_those_there_are(web: Served, method: str) -> None:
    document = await web.uploaded()
    answer = await web.client.request(method, job_of(document))
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET")
