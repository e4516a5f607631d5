"""Pages of nine tenants beside the long scans of a tenth, against the same pages on a quiet service.

Run: ./daira bench neighbours [--scans 12] [--pages 1000] [--seconds 60] [--page text|scan] [--every 1]

One process serves all ten tenants, with two recognition slots. Seconds are from the upload's transaction to the end of
the job that reads the page, by the database's clock. The ratio is to the same load on the quiet service in the same
run. The scans' pages are counted before and after: they must grow, and each be read once.
"""

import argparse
import asyncio
import math
import sys
import tempfile
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx

from app.adapters.postgres.engine import administer
from tests.support.api_keys import new_key
from tests.support.databases import Databases
from tests.support.sample_documents import SENTENCE, Sheet, drawn, pdf
from tests.support.service import Service, serving_again

MINNOWS = 9
TOOK = """
select extract(epoch from j.finished_at - j.created_at)::float as seconds from daira.jobs j
where j.tenant_id like 'minnow-%' and j.kind = 'ocr' and j.state = 'done' and j.created_at >= $1 order by 1
"""
OPEN = "select count(*) from daira.jobs where tenant_id like 'minnow-%' and state in ('queued', 'claimed')"
READ = """
select (select count(*) from daira.drafts where source = 'ocr')
     + (select count(*) from daira.pages where source = 'ocr')
"""
WHALE = """
select count(*) filter (where state = 'claimed') as running, count(*) filter (where state = 'queued') as waiting,
       count(*) filter (where state = 'done') as done, count(*) filter (where state = 'failed') as failed,
       sum(attempts) as attempts, sum(failures + expiries + releases) as counted
from daira.jobs where tenant_id = 'whale' and kind = 'ocr'
"""


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--scans", type=int, default=12)
    arguments.add_argument("--pages", type=int, default=1_000, help="pages of each scan")
    arguments.add_argument("--seconds", type=int, default=60, help="length of each of the two measurements")
    arguments.add_argument("--page", choices=("text", "scan"), default="text", help="the neighbours' pages")
    arguments.add_argument("--every", type=float, default=1.0, help="seconds between two pages of one neighbour")
    options = arguments.parse_args()
    print("drawing the scans …", file=sys.stderr)
    page = drawn(*[SENTENCE] * 6, size=(1275, 1650))
    scans = [pdf(*[Sheet(image=page)] * options.pages, Sheet(lines=(f"Scan {n}",))) for n in range(options.scans)]
    databases = Databases()
    await databases.start()
    try:
        async with databases.clone() as cloned, administer(cloned.admin_url) as database:
            with tempfile.TemporaryDirectory(prefix="daira-bench-") as folder:
                settings = {"DAIRA_ROLE": "all", "DAIRA_LANES": "ocr=2,llm=16,webhook=16"}
                with serving_again(cloned, Path(folder), api_key="", **settings) as service:
                    await _measured(service, database, scans, options)
    finally:
        databases.close()


async def _measured(
    service: Service, database: asyncpg.Connection, scans: list[bytes], options: argparse.Namespace
) -> None:
    keys = {name: new_key(service.database_url, name) for name in ["whale", *_minnows()]}
    async with httpx.AsyncClient(base_url=service.url, timeout=60, trust_env=False) as client:
        await _paced(client, keys, database, options, seconds=3)
        quiet = await _paced(client, keys, database, options, seconds=options.seconds)
        for scan in scans:
            await _upload(client, keys["whale"], "scan.pdf", scan)
        await asyncio.sleep(5)
        before = await database.fetchval(READ)
        busy = await _paced(client, keys, database, options, seconds=options.seconds)
        read = await database.fetchval(READ) - before
        whale = await database.fetchrow(WHALE)
        doubled = await _read_in_all(client) - await database.fetchval(READ)
    print(f"{'':<24} {'pages':>6} {'p50':>7} {'p95':>7} {'p99':>7} {'ratio p95':>9}")
    print(f"{'quiet':<24} {_row(quiet)}")
    print(f"{'beside the scans':<24} {_row(busy)} {_percentile(busy, 0.95) / _percentile(quiet, 0.95):>9.2f}")
    print(f"scans: {read} pages in {options.seconds} s, {doubled} of them read twice; their jobs: {dict(whale)}")


def _minnows() -> list[str]:
    return [f"minnow-{number}" for number in range(MINNOWS)]


async def _paced(
    client: httpx.AsyncClient,
    keys: dict[str, str],
    database: asyncpg.Connection,
    options: argparse.Namespace,
    *,
    seconds: float,
) -> list[float]:
    """Seconds from upload to text for a page of each neighbour, one each `every` seconds."""
    began = await database.fetchval("select now()")
    numbers = range(round(seconds / options.every))

    async def one(name: str, place: int) -> None:
        await asyncio.sleep(options.every * place / MINNOWS)
        for _ in numbers:
            pause = asyncio.create_task(asyncio.sleep(options.every))
            await _upload(client, keys[name], "page.pdf", _page(options.page))
            await pause

    await asyncio.gather(*(one(name, place) for place, name in enumerate(_minnows())))
    while await database.fetchval(OPEN):  # noqa: ASYNC110 - the database has no event for it
        await asyncio.sleep(0.2)
    return [row["seconds"] for row in await database.fetch(TOOK, began)]


async def _upload(client: httpx.AsyncClient, key: str, name: str, content: bytes) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    answer = await client.post("/v1/documents", files={"file": (name, content)}, headers=headers)
    answer.raise_for_status()


def _page(kind: str) -> bytes:
    """One page, unlike all others."""
    mark = uuid4().hex
    if kind == "text":
        return pdf(Sheet(lines=(SENTENCE,) * 40 + (mark,)))
    return pdf(Sheet(image=drawn(*[SENTENCE] * 6, mark, size=(1275, 1650))))


async def _read_in_all(client: httpx.AsyncClient) -> int:
    """Scanned pages that readers have read since the start."""
    lines = (await client.get("/metrics")).text.splitlines()
    return sum(
        round(float(line.split()[-1])) for line in lines if line.startswith('daira_pages_read_total{source="ocr"')
    )


def _percentile(sorted_seconds: list[float], share: float) -> float:
    return sorted_seconds[math.ceil(share * len(sorted_seconds)) - 1]


def _row(seconds: list[float]) -> str:
    return f"{len(seconds):>6} " + " ".join(f"{_percentile(seconds, share):>7.2f}" for share in (0.5, 0.95, 0.99))


if __name__ == "__main__":
    asyncio.run(main())
