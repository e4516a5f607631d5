"""The Python client's other routes: search, usage, retries, and webhooks that reach a receiver."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typing_extensions import override

from app.client.client import Client
from app.client.faults import ApiFault
from tests.support.folders import open_folder
from tests.support.service import Service, up, wait_until


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with open_folder() as folder, up(folder / "data", DAIRA_WEBHOOK_ALLOW_PRIVATE="true") as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url, service.api_key) as client:
        yield client


@dataclass(kw_only=True)
class Receiver:
    url: str = ""
    got: list[str] = field(default_factory=list)
    """The ids of what came."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append(self.headers["webhook-id"])
            self.send_response(204)
            self.end_headers()

        @override
        def log_message(self, format: str, *args: object) -> None:
            """The test has its own list."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}/daira"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield receiver
        server.shutdown()
        thread.join()


def test_a_webhook_is_made_tried_rotated_and_removed(client: Client, receiver: Receiver) -> None:
    webhook = client.webhooks.create(receiver.url, events=["job.done"], description="mine")
    assert webhook["secret"].startswith("whsec_")
    assert [each["id"] for each in client.webhooks.list()] == [webhook["id"]]

    tried = client.wait(client.webhooks.test(webhook["id"]))
    assert tried["state"] == "done"
    assert receiver.got == [tried["id"]]
    client.upload(b"A wombat is told of.")
    wait_until(lambda: len(receiver.got) == 2, seconds=30)
    wait_until(
        lambda: [each["state"] for each in client.webhooks.deliveries(webhook["id"])] == ["done"] * 2, seconds=30
    )
    assert client.wait(client.retry(tried["id"]))["state"] == "done"
    assert receiver.got.count(tried["id"]) == 2

    rotated = client.webhooks.rotate(webhook["id"], overlap_seconds=0)
    assert rotated["secret"] != webhook["secret"]
    assert client.webhooks.enable(webhook["id"])["disabled_at"] is None
    client.webhooks.delete(webhook["id"])
    assert list(client.webhooks.list()) == []


def test_a_webhook_without_a_list_of_events_is_told_all(client: Client, receiver: Receiver) -> None:
    webhook = client.webhooks.create(receiver.url)
    assert {"job.done", "job.failed"} <= set(webhook["events"])
    client.webhooks.delete(webhook["id"])


def test_a_job_that_failed_is_queued_again(client: Client) -> None:
    document = client.upload(b"%PDF-1.7\nnothing of a PDF follows", wait=True)
    assert document["status"] == "failed"
    again = client.wait(client.retry(document["jobs"][0]["id"]))
    assert (again["state"], again["error"]["code"]) == ("failed", "corrupt")


def test_pages_are_found_by_their_words_over_several_requests(client: Client) -> None:
    found = [client.upload(f"Wallabies, {n} of them, hop.".encode(), wait=True)["id"] for n in range(3)]
    hits = list(client.search("wallaby hops", limit=2))
    assert {hit["document_id"] for hit in hits} == set(found)
    assert "<mark>" in hits[0]["snippet"]
    assert len(list(client.search("wallaby", document_id=found[0]))) == 1


def test_usage_is_told_by_day(client: Client) -> None:
    client.upload(b"It counts.", wait=True)
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    used = client.usage(first=today, last=today)
    assert [day["day"] for day in used["data"]] == [today]
    assert used["total"]["documents"] >= 1
    with pytest.raises(ApiFault, match="invalid"):
        client.usage(first=today, last="2020-01-01")
