"""A worker killed in the middle of a long scan: what it has read is not read again."""

import asyncio
import re
from pathlib import Path

import httpx

from app.adapters.postgres.engine import administer
from tests.support.sample_documents import SENTENCE, Sheet, drawn, pdf
from tests.support.service import Service, ended, up, upload, wait_until

PAGES = 40
QUICK = {"DAIRA_LEASE_SECONDS": "3", "DAIRA_SWEEP_SECONDS": "1"}


def drafted(service: Service) -> list[int]:
    async def ask() -> list[int]:
        async with administer(service.database_url) as connection, connection.transaction():
            await connection.execute("select set_config('app.tenant_id', 'dev', true)")
            return [row["number"] for row in await connection.fetch("select number from daira.drafts")]

    return asyncio.run(ask())


def recognised(client: httpx.Client) -> int:
    found = re.search(r'^daira_pages_read_total{source="ocr"} (\S+)$', client.get("/metrics").text, re.MULTILINE)
    return int(float(found[1])) if found else 0


def test_a_scan_of_40_pages_survives_kill_9_and_each_page_is_recognised_once(folder: Path) -> None:
    data = folder / "data"
    scan = pdf(*[Sheet(image=drawn(SENTENCE, f"Number {number}", size=(1275, 1650))) for number in range(1, PAGES + 1)])
    with up(data, **QUICK) as first, first.client() as client:
        document = upload(client, scan)
        wait_until(lambda: len(drafted(first)) >= 10, seconds=60)
        assert client.get(f"/v1/documents/{document['id']}/text").status_code == 409
        before = len(drafted(first))
        first.process.kill()
        first.process.wait()
    with up(data, **QUICK) as second, second.client() as client:
        job = ended(client, document["jobs"][0], seconds=60)
        assert (job["state"], job["progress"]) == ("done", {"done": PAGES, "total": PAGES, "unit": "page"})
        assert 0 < recognised(client) <= PAGES - before <= PAGES - 10
        pages = client.get(f"/v1/documents/{document['id']}/pages").json()["data"]
        assert client.get("/v1/usage").json()["total"]["pages"] == PAGES
        hits = client.get("/v1/search", params={"q": "number 17"}).json()["data"]
        assert 17 in {hit["page"] for hit in hits}
        assert drafted(second) == []
    assert [page["number"] for page in pages] == list(range(1, PAGES + 1))
    assert all(SENTENCE in page["text"] for page in pages)
