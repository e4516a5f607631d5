"""Listings: newest first, page by page without a gap, and every cursor that is not ours refused."""

import asyncio
import base64
import json
import re
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from app.web.pagination import binding
from tests.unit.served import ACME, PROBLEM, Served, served

LISTINGS = ["/v1/documents", "/v1/jobs"]

HOUR = timedelta(hours=1)

NOW = "2026-01-01T00:00:00+00:00"
ID = "0199c0de-0000-7000-8000-000000000001"


async def listed(web: Served, path: str, **query: Any) -> list[str]:
    answer = await web.client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return [entry["id"] for entry in answer.json()["data"]]


async def paged(web: Served, path: str, *, limit: int, **query: Any) -> list[list[str]]:
    """All pages, by following the cursor."""
    pages = []
    cursor: dict[str, str] = {}
    while True:
        answer = await web.client.get(path, params={"limit": limit} | query | cursor)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        pages.append([entry["id"] for entry in body["data"]])
        if body["next_cursor"] is None:
            return pages
        cursor = {"cursor": body["next_cursor"]}


def packed(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("path", LISTINGS)
async def test_an_empty_listing_has_no_next_page(web: Served, path: str) -> None:
    assert (await web.client.get(path)).json() == {"data": [], "next_cursor": None}


@pytest.mark.parametrize("path", LISTINGS)
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_pages_hold_every_entry_once_newest_first(web: Served, path: str, limit: int) -> None:
    for _ in range(7):
        await web.uploaded()
    pages = await paged(web, path, limit=limit)
    assert {len(page) for page in pages[:-1]} <= {limit}
    assert pages[-1]
    entries = [entry for page in pages for entry in page]
    assert len(entries) == 7
    assert entries == sorted(entries, reverse=True)


@pytest.mark.parametrize("path", LISTINGS)
async def test_what_is_added_meanwhile_moves_no_later_page(web: Served, path: str) -> None:
    for _ in range(4):
        await web.uploaded()
    first = (await web.client.get(path, params={"limit": 2})).json()
    await web.uploaded()
    second = (await web.client.get(path, params={"limit": 2, "cursor": first["next_cursor"]})).json()
    assert not {entry["id"] for entry in first["data"]} & {entry["id"] for entry in second["data"]}
    assert second["next_cursor"] is None


@pytest.mark.parametrize("path", LISTINGS)
async def test_a_page_has_20_entries_unless_asked_otherwise(web: Served, path: str) -> None:
    for _ in range(21):
        await web.uploaded()
    assert len(await listed(web, path)) == 20
    assert len(await listed(web, path, limit=100)) == 21


@pytest.mark.parametrize("path", LISTINGS)
@pytest.mark.parametrize("limit", ["0", "-1", "101", "1000000000000000000000", "1.5", "ten", "", "NaN", "\0"])
async def test_a_limit_outside_of_1_to_100_is_refused(web: Served, path: str, limit: str) -> None:
    answer = await web.client.get(path, params={"limit": limit})
    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/limit"]


@pytest.mark.threat(41)
@pytest.mark.parametrize("path", LISTINGS)
@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "====",
        "nonsense",
        "ü",
        "\0",
        "a" * 10_000,
        packed(None),
        packed([]),
        packed({}),
        packed({"a": 1, "b": 2}),
        packed("ab"),
        packed(1),
        packed([1]),
        packed([None, None]),
        packed(["not a uuid"]),
        packed([NOW, "not a uuid"]),
        packed(["yesterday", ID]),
        packed(["2026-01-01T00:00:00", ID]),
        packed(["0001-01-01T00:00:00+23:59", ID]),
        packed(["9999-12-31T23:59:59-23:59", ID]),
        packed([NOW, ID, "more"]),
        base64.urlsafe_b64encode(b"[" * 5000).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe\xfd").decode(),
        base64.urlsafe_b64encode(b"9" * 5000).decode(),
    ],
    ids=lambda value: value[:24],
)
async def test_a_cursor_that_is_not_ours_is_refused(web: Served, path: str, cursor: str) -> None:
    await web.uploaded()
    answer = await web.client.get(path, params={"cursor": cursor})
    assert answer.status_code == 422, answer.text
    assert answer.headers["Content-Type"] == PROBLEM
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/cursor"]


async def test_a_page_of_documents_with_large_metadata_ends_early_and_leaves_none_out(web: Served) -> None:
    metadata = [json.dumps({"number": number, "text": "x" * 15_000}) for number in range(50)]
    ids = [(await web.uploaded(metadata=each))["id"] for each in metadata]
    found: list[str] = []
    sizes: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await web.client.get("/v1/documents", params={"limit": "100"} | cursor)
        sizes.append(len(answer.content))
        found += [document["id"] for document in answer.json()["data"]]
        if answer.json()["next_cursor"] is None:
            break
        cursor = {"cursor": answer.json()["next_cursor"]}
    assert found == ids[::-1]
    assert max(sizes) < 400_000


@pytest.mark.threat(41)
async def test_a_cursor_of_another_listing_is_refused(web: Served) -> None:
    for _ in range(2):
        await web.uploaded()
    for path, other in (LISTINGS, reversed(LISTINGS)):
        cursor = (await web.client.get(path, params={"limit": 1})).json()["next_cursor"]
        assert (await web.client.get(other, params={"cursor": cursor})).status_code == 422


@pytest.mark.threat(41)
@pytest.mark.parametrize("path", LISTINGS)
async def test_a_cursor_of_another_tenant_shows_nothing_of_theirs(web: Served, path: str) -> None:
    for _ in range(3):
        await web.uploaded()
    cursor = (await web.client.get(path, params={"limit": 1})).json()["next_cursor"]
    answer = await web.client.get(path, params={"cursor": cursor}, headers=await web.key_of("other"))
    assert is_refused(answer)


def is_refused(answer: httpx.Response) -> bool:
    return answer.status_code == 422 and "restart without cursor" in answer.json()["detail"]


@pytest.mark.threat(41)
@pytest.mark.parametrize("path", LISTINGS)
async def test_a_cursor_is_for_the_filters_that_it_was_given_with(web: Served, path: str) -> None:
    for _ in range(3):
        await web.uploaded()
    filters = {"/v1/documents": {"status": "processing", "filename": "letter"}, "/v1/jobs": {"kind": "ocr"}}[path]
    cursor = (await web.client.get(path, params=filters | {"limit": 1})).json()["next_cursor"]
    assert len(await listed(web, path, **filters, cursor=cursor, limit=5)) == 2
    assert is_refused(await web.client.get(path, params={"cursor": cursor}))
    for name in filters:
        assert is_refused(await web.client.get(path, params=filters | {name: "ready", "cursor": cursor}))


@pytest.mark.threat(41)
@pytest.mark.parametrize("path", LISTINGS)
async def test_a_cursor_with_one_letter_changed_is_refused_wherever_it_is(web: Served, path: str) -> None:
    for _ in range(2):
        await web.uploaded()
    cursor = (await web.client.get(path, params={"limit": 1})).json()["next_cursor"]
    for at in range(len(cursor)):
        changed = cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :]
        assert is_refused(await web.client.get(path, params={"cursor": changed})), at


@pytest.mark.threat(41)
async def test_a_place_that_is_made_up_is_refused_though_it_is_bound_well(web: Served) -> None:
    for path in LISTINGS:
        for place in ("", "x", packed(None), packed([1]), packed(["not a uuid"]), packed([NOW, "not a uuid"])):
            cursor = f"{place}.{binding(place, ACME, path, [])}"
            answer = await web.client.get(path, params={"cursor": cursor})
            assert answer.status_code == 422
            assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/cursor"]


@pytest.mark.parametrize("path", LISTINGS)
async def test_a_header_links_to_the_next_page(web: Served, path: str) -> None:
    for _ in range(3):
        await web.uploaded()
    answer = await web.client.get(path, params={"limit": 2})
    (link,) = re.findall(r'^<(.*)>; rel="next"$', answer.headers["Link"])
    following = await web.client.get(link)
    assert len(following.json()["data"]) == 1
    assert "Link" not in following.headers


async def test_documents_are_filtered_by_status(web: Served) -> None:
    ready, failed, processing = [await web.uploaded() for _ in range(3)]
    await web.read(ready)
    await web.client.post(f"/v1/jobs/{failed['jobs'][0]['id']}/cancel")
    assert await listed(web, "/v1/documents", status="ready") == [ready["id"]]
    assert await listed(web, "/v1/documents", status="failed") == [failed["id"]]
    assert await listed(web, "/v1/documents", status="processing") == [processing["id"]]


async def test_documents_are_filtered_by_a_part_of_their_name_in_any_case(web: Served) -> None:
    document = await web.uploaded()
    for found in ("letter", "LETTER.P", "", ".pdf"):
        assert await listed(web, "/v1/documents", filename=found) == [document["id"]]
    for missed in ("lettre", "%", "_", "letter%", "\\", "*"):
        assert await listed(web, "/v1/documents", filename=missed) == []


async def test_a_document_is_found_by_its_bytes_and_only_by_its_tenant(web: Served) -> None:
    document, _ = [await web.uploaded() for _ in range(2)]
    assert await listed(web, "/v1/documents", sha256=document["sha256"]) == [document["id"]]
    assert await listed(web, "/v1/documents", sha256="0" * 64) == []
    theirs = await web.client.get(
        "/v1/documents", params={"sha256": document["sha256"]}, headers=await web.key_of("other")
    )
    assert theirs.json()["data"] == []


@pytest.mark.parametrize("sha256", ["", "0" * 63, "0" * 65, "G" * 64, "0" * 64 + "\n", "\0" * 64])
async def test_what_is_no_sha256_is_refused(web: Served, sha256: str) -> None:
    answer = await web.client.get("/v1/documents", params={"sha256": sha256})
    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/sha256"]


@pytest.mark.parametrize("name", ["x" * 256, "\0", "a\0b"])
async def test_a_name_that_no_document_can_have_is_refused(web: Served, name: str) -> None:
    answer = await web.client.get("/v1/documents", params={"filename": name})
    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/filename"]


async def test_documents_are_filtered_by_when_they_were_made(web: Served) -> None:
    document = await web.uploaded()
    made = datetime.fromisoformat(document["created_at"])
    before, after = (made - HOUR).isoformat(), (made + HOUR).isoformat()
    assert await listed(web, "/v1/documents", created_after=before, created_before=after) == [document["id"]]
    assert await listed(web, "/v1/documents", created_after=after) == []
    assert await listed(web, "/v1/documents", created_before=before) == []
    assert await listed(web, "/v1/documents", created_after=made.isoformat()) == []
    assert await listed(web, "/v1/documents", created_before="2999-01-01T00:00:00Z") == [document["id"]]


@pytest.mark.parametrize("name", ["created_after", "created_before"])
@pytest.mark.parametrize(
    "moment",
    [
        "",
        "yesterday",
        "2026-01-01T00:00:00",
        "2026-13-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "NaN",
        "1e400",
    ],
)
async def test_a_time_that_is_no_moment_is_refused(web: Served, name: str, moment: str) -> None:
    await web.uploaded()
    answer = await web.client.get("/v1/documents", params={name: moment})
    assert answer.status_code == 422, answer.text
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [f"/{name}"]


async def test_jobs_are_filtered_by_state_kind_and_document(web: Served) -> None:
    done, queued = [await web.uploaded() for _ in range(2)]
    await web.read(done)
    (of_done,), (of_queued,) = ([job["id"] for job in document["jobs"]] for document in (done, queued))
    assert await listed(web, "/v1/jobs", state="done") == [of_done]
    assert await listed(web, "/v1/jobs", state="queued") == [of_queued]
    assert await listed(web, "/v1/jobs", document_id=done["id"]) == [of_done]
    assert await listed(web, "/v1/jobs", document_id=done["id"], state="queued") == []
    assert await listed(web, "/v1/jobs", kind="ocr") == [of_queued, of_done]
    for unknown in ("brew", "OCR", "\0", ""):
        assert await listed(web, "/v1/jobs", kind=unknown) == []


@pytest.mark.parametrize("path", LISTINGS)
async def test_a_filter_holds_on_every_page(web: Served, path: str) -> None:
    documents = [await web.uploaded() for _ in range(6)]
    for document in documents[::2]:
        await web.read(document)
    query = {"status": "ready"} if path == "/v1/documents" else {"state": "done"}
    pages = await paged(web, path, limit=2, **query)
    assert [len(page) for page in pages] == [2, 1]


@pytest.mark.parametrize("path", LISTINGS)
async def test_a_listing_shows_the_callers_entries_alone(web: Served, path: str) -> None:
    await web.uploaded()
    answer = await web.client.get(path, headers=await web.key_of("other"))
    assert answer.json()["data"] == []


async def test_a_page_is_made_one_by_one_so_that_others_go_on_in_between() -> None:
    async with served() as web:
        for _ in range(5):
            await web.uploaded()
        steps = 0

        async def count() -> None:
            nonlocal steps
            while True:
                await asyncio.sleep(0)
                steps += 1

        counting = asyncio.create_task(count())
        listed = [f"/v1/{what}?limit={limit}" for what in ("documents", "jobs") for limit in (1, 5)]
        counts = []
        for path in listed:
            before = steps
            assert len((await web.client.get(path)).json()["data"]) in {1, 5}
            counts.append(steps - before)
        counting.cancel()
    assert counts[1] > counts[0]
    assert counts[3] > counts[2]
