"""Events over the wire: a reader that outlives the service, a job that is cancelled, a server that stops."""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from app.adapters.postgres.engine import administer
from tests.support.event_streams import Blocks, Sent
from tests.support.folders import open_folder
from tests.support.sample_documents import SENTENCE, Sheet, drawn, pdf
from tests.support.service import Service, ended, up, upload, wait_until

PAGES = 500


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with open_folder() as folder, up(folder / "data") as service:
        yield service


@contextmanager
def following(client: httpx.Client, path: str, *, last: str | None = None) -> Iterator[Iterator[Sent]]:
    headers = {} if last is None else {"Last-Event-ID": last}
    with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        yield _blocks(answer)


def _blocks(answer: httpx.Response) -> Iterator[Sent]:
    blocks = Blocks()
    for chunk in answer.iter_text():
        yield from blocks.feed(chunk)


def test_a_reader_misses_nothing_while_it_and_the_service_are_away() -> None:
    with open_folder() as folder:
        data = folder / "data"
        with up(data, DAIRA_OCR="null") as service, service.client() as client:
            first = upload(client, pdf(Sheet(lines=("First",))))
            with following(client, "/v1/events") as stream:
                (state, last) = next((s.body, s.id) for s in stream if s.event == "state" and s.body["state"] == "done")
                assert state["id"] == first["jobs"][0]["id"]
            second = upload(client, pdf(Sheet(lines=("Second",))))
            ended(client, second["jobs"][0])
        with up(data, DAIRA_OCR="null") as service, service.client() as client:
            with following(client, "/v1/events", last=last) as stream:
                told = []
                for sent in stream:
                    told += [(sent.body["id"], sent.body["state"])] if sent.event else []
                    if sent.id:
                        break
            assert told == [(second["jobs"][0]["id"], "done")]
            address = f"/v1/jobs/{first['jobs'][0]['id']}/events"
            over = client.get(address, headers={"Last-Event-ID": str(sent.id)})
            assert (over.status_code, over.content) == (204, b"")


def test_a_stop_does_not_wait_for_those_who_follow() -> None:
    with open_folder() as folder, up(folder / "data", DAIRA_OCR="null") as service, service.client() as client:
        with following(client, "/v1/events") as stream:
            assert next(stream).retry
            service.process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert list(stream) is not None
            assert time.monotonic() - began < 3
        assert service.process.wait(timeout=30) == 0


def test_a_long_scan_is_cancelled_within_ten_seconds_and_nothing_of_it_is_written_afterwards(service: Service) -> None:
    """The cancel half of behaviour 24."""
    sheet = Sheet(image=drawn(SENTENCE, SENTENCE, SENTENCE))
    with service.client() as client:
        job = upload(client, pdf(*[sheet] * PAGES), name="scan.pdf")["jobs"][0]
        with following(client, f"/v1/jobs/{job['id']}/events") as stream:
            reached: list[tuple[float, int]] = []
            for sent in stream:
                if sent.event == "progress":
                    assert (sent.body["job_id"], sent.body["total"], sent.body["unit"]) == (job["id"], PAGES, "page")
                    reached.append((time.monotonic(), sent.body["done"]))
                if len(reached) == 3:
                    break
            readers = children_of(service)
            asked = time.monotonic()
            for _ in range(2):
                assert client.post(f"/v1/jobs/{job['id']}/cancel").status_code == 200
            (*_, last) = (sent.body for sent in stream if sent.event == "state")
            assert last["state"] == "cancelled"
            assert time.monotonic() - asked < 10
        # At most once a second, whatever a page takes, and always onwards.
        assert [done for _, done in reached] == sorted({done for _, done in reached})
        assert reached[2][0] - reached[0][0] > 1
        wait_until(lambda: bool(readers - children_of(service)), seconds=5)
        written = asyncio.run(pages_of(service))
        time_is_up = time.monotonic() + 3
        wait_until(lambda: time.monotonic() > time_is_up, seconds=10)
        assert asyncio.run(pages_of(service)) == written
        assert written["pages"] == 0
        after = client.get(f"/v1/jobs/{job['id']}").json()
        assert (after["state"], after["error"]["code"]) == ("cancelled", "cancelled")
        assert [entry["outcome"] for entry in after["history"]] == ["cancelled"]


def children_of(service: Service) -> set[int]:
    """Processes of the service's own, such as its readers."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[1]) == service.process.pid:
            found.add(int(entry.name))
    return found


async def pages_of(service: Service) -> dict[str, int]:
    async with administer(service.database_url) as connection, connection.transaction():
        await connection.execute("select set_config('app.tenant_id', 'dev', true)")
        return {
            table: await connection.fetchval(f"select count(*) from daira.{table}") for table in ("pages", "drafts")
        }
