"""The Python client, against the service itself and on a bad line to it."""

import hashlib
import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from typing_extensions import override

from app.client.client import Client
from app.client.faults import ApiFault
from app.client.retries import NO_RETRIES, RetryPolicy
from tests.support.bad_line import CUT, LOST, BadLine, Trouble, bad_line
from tests.support.folders import open_folder
from tests.support.sample_documents import SENTENCE, Sheet, drawn, pdf
from tests.support.service import Service, up

UNKNOWN = "01890000-0000-7000-8000-000000000000"

_numbers = itertools.count()


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with open_folder() as folder, up(folder / "data") as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url, service.api_key) as client:
        yield client


@pytest.fixture
def line(service: Service) -> Iterator[BadLine]:
    with bad_line(service.url) as line:
        yield line


def letter() -> bytes:
    """Unlike any before."""
    return f"This is letter {next(_numbers)}, of {os.getpid()}.".encode()


def scan(pages: int) -> bytes:
    return pdf(*[Sheet(image=drawn(f"{SENTENCE} {next(_numbers)}"))] * pages)


def test_a_document_goes_up_and_its_text_comes_back(client: Client) -> None:
    document = client.upload(letter(), filename="a.txt", metadata={"from": "me", "n": 1}, wait=True)
    assert (document["filename"], document["status"], document["metadata"]) == (
        "a.txt",
        "ready",
        {"from": "me", "n": 1},
    )
    assert client.text(document["id"]).startswith("This is letter")
    assert [page["number"] for page in client.pages(document["id"])] == [1]
    assert client.page(document["id"], 1)["words"] is not None
    with client.download(document["id"], "content") as download:
        assert (download.filename, download.size) == ("a.txt", document["size"])
        assert hashlib.sha256(b"".join(download.chunks())).hexdigest() == document["sha256"]
    client.delete(document["id"])
    with pytest.raises(ApiFault, match="not_found"):
        client.document(document["id"])


class Once(BytesIO):
    """What comes by a pipe."""

    @override
    def seekable(self) -> bool:
        return False

    @override
    def seek(self, *_: int) -> int:
        raise OSError


@pytest.mark.parametrize("kind", ["path", "str", "bytes", "file", "stream"])
def test_whatever_holds_bytes_is_sent_also_twice(line: BadLine, service: Service, tmp_path: Path, kind: str) -> None:
    content, path = letter(), tmp_path / "a.txt"
    path.write_bytes(content)
    line.troubles += [CUT]
    with path.open("rb") as file, Client(line.url, service.api_key) as client:
        sources: dict[str, Any] = {
            "path": path, "str": str(path), "bytes": content, "file": file, "stream": Once(content)
        }  # fmt: skip
        document = client.upload(sources[kind])
    assert document["sha256"] == hashlib.sha256(content).hexdigest()
    assert document["filename"] == ("a.txt" if kind in {"path", "str", "file"} else "document")


def test_how_much_was_sent_is_told(client: Client) -> None:
    told: list[int] = []
    client.upload(letter() * 10_000, sent=told.append)
    assert told == sorted(told)
    assert len(told) > 3


@pytest.mark.parametrize("trouble", [CUT, LOST, (503, "0"), (429, "0")], ids=str)
def test_an_upload_is_tried_again_under_its_key_and_made_once(
    service: Service, line: BadLine, trouble: Trouble
) -> None:
    line.troubles += [trouble] * 2
    with Client(line.url, service.api_key) as client:
        document = client.upload(letter(), idempotency_key=f"mine-{trouble}")
        assert [each["id"] for each in client.documents(sha256=document["sha256"])] == [document["id"]]
    assert [upload.key for upload in line.uploads] == [f"mine-{trouble}"] * 3
    assert len(document["jobs"]) == 1


@pytest.mark.parametrize("trouble", [CUT, (503, "0"), (429, "0")], ids=str)
def test_patience_has_an_end_and_tries_grow_apart(service: Service, line: BadLine, trouble: Trouble) -> None:
    line.troubles += [trouble] * 99
    paused: list[float] = []
    patience = RetryPolicy(seconds=20, busy=20, pause=paused.append)
    broken = pytest.raises((ApiFault, httpx.TransportError))
    with Client(line.url, service.api_key, patience=patience) as client, broken:
        client.upload(letter())
    assert len(line.uploads) == len(paused) + 1
    assert 5 < sum(paused) <= 20
    assert max(paused) > 4 * paused[0]


def test_a_pause_that_is_asked_for_is_kept_and_one_that_is_too_long_ends_it(service: Service, line: BadLine) -> None:
    line.troubles += [(429, "7"), (503, "7"), (503, "700")]
    paused: list[float] = []
    told: list[float] = []
    patience = RetryPolicy(pause=paused.append, told=lambda _why, seconds: told.append(seconds))
    with Client(line.url, service.api_key, patience=patience) as client, pytest.raises(ApiFault) as refused:
        client.upload(letter())
    assert (paused, told) == ([7, 7], [7, 7])
    assert (refused.value.status, refused.value.retry_after) == (503, 700)


def test_without_patience_there_is_one_try(service: Service, line: BadLine) -> None:
    line.troubles += [(429, "0")]
    with Client(line.url, service.api_key, patience=NO_RETRIES) as client, pytest.raises(ApiFault):
        client.upload(letter())
    assert len(line.uploads) == 1


def test_what_would_be_done_twice_is_not_tried_again(service: Service, line: BadLine, client: Client) -> None:
    job = client.upload(letter(), wait=True)["jobs"][0]
    line.troubles += [LOST]
    with Client(line.url, service.api_key) as on_bad_line, pytest.raises(httpx.TransportError):
        on_bad_line.retry(job["id"])
    assert len(line.uploads) == 1


def test_listings_are_followed_to_their_end(client: Client) -> None:
    made = {client.upload(letter(), filename="listed.txt")["id"] for _ in range(5)}
    found = [document["id"] for document in client.documents(filename="listed.txt", limit=2)]
    assert len(found) == 5
    assert set(found) == made
    assert {job["document_id"] for job in client.jobs(limit=3, document_id=found[0])} == {found[0]}


def test_who_waits_sees_how_far_it_is(client: Client) -> None:
    seen: list[dict[str, Any]] = []
    document = client.wait(client.upload(scan(3)), on_progress=seen.append)
    assert document["status"] == "ready"
    assert seen[-1]["state"] == "done"
    assert seen[-1]["progress"]["done"] == 3
    assert client.wait(document["jobs"][0])["state"] == "done"


def test_jobs_are_asked_for_and_cancelled(client: Client) -> None:
    document = client.upload(letter(), wait=True)
    job = client.request_job(document["id"], {"kind": "ocr", "mode": "force"})
    with suppress(ApiFault):  # a worker may be quicker
        client.cancel(job["id"])
    ended = client.wait(client.job(job["id"]))
    assert ended["state"] in {"cancelled", "done"}


def test_a_refusal_says_what_and_where_and_which_request(client: Client) -> None:
    with pytest.raises(ApiFault) as refused:
        client.upload(letter(), jobs=[{"kind": "ocr", "mode": "wrong"}])
    fault = refused.value
    assert (fault.status, fault.code) == (422, "invalid")
    assert fault.errors[0]["pointer"].startswith("/jobs/0")
    assert fault.request_id
    with pytest.raises(ApiFault) as missing:
        client.text(UNKNOWN)
    assert (missing.value.status, missing.value.code) == (404, "not_found")


def test_an_empty_list_of_jobs_is_not_the_usual_ones(client: Client) -> None:
    assert client.upload(letter(), jobs=[])["jobs"] == []


@pytest.mark.parametrize("odd", ["../me", "x/../../me", "?a=b", "", "%2e%2e"])
def test_an_id_leads_to_no_other_route(client: Client, odd: str) -> None:
    with pytest.raises(ApiFault) as refused:
        client.text(odd)
    assert refused.value.status in {404, 422}


def test_an_address_that_is_not_daira_s_is_said_to_be(line: BadLine) -> None:
    with Client(f"{line.url}/elsewhere", "key", patience=NO_RETRIES) as client, pytest.raises(ApiFault):
        client.me()
    with Client("http://127.0.0.1:9", "key", patience=NO_RETRIES) as client, pytest.raises(httpx.ConnectError):
        client.me()


def test_many_threads_share_a_client(client: Client) -> None:
    with ThreadPoolExecutor(8) as threads:
        documents = list(threads.map(lambda _: client.upload(letter()), range(40)))
    assert len({document["id"] for document in documents}) == 40


def test_events_of_a_job_end_with_it(client: Client) -> None:
    job = client.upload(scan(2))["jobs"][0]
    events = list(client.events(job["id"]))
    assert events[-1].name == "state"
    assert events[-1].data["state"] == "done"
    assert {event.name for event in events} <= {"state", "progress"}
    # Who has seen the end is not kept waiting for another.
    assert list(client.events(job["id"], last_event_id=events[-1].id)) == []


def test_events_go_on_behind_the_last_one_when_the_line_breaks(service: Service, line: BadLine, client: Client) -> None:
    job = client.upload(scan(3))["jobs"][0]
    line.cuts = 2
    patience = RetryPolicy(pause=lambda _seconds: None)
    with Client(line.url, service.api_key, patience=patience) as on_bad_line:
        events = list(on_bad_line.events(job["id"]))
    assert events[-1].data["state"] == "done"
    assert line.log[0].last_event_id is None
    assert any(request.last_event_id for request in line.log[1:])


def test_events_of_all_jobs_come_until_one_has_seen_enough(client: Client) -> None:
    events = client.events()
    job = client.upload(letter())["jobs"][0]
    for event in events:
        if event.name == "state" and event.data["id"] == job["id"] and event.data["state"] == "done":
            break
    events.close()


def test_pages_are_found_by_their_words(client: Client) -> None:
    document = client.upload(b"A wombat digs burrows.", wait=True)
    [hit] = client.search("wombat burrows", limit=1)
    assert hit["document_id"] == document["id"]
