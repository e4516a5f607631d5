"""Attacks on a web process by legal requests of one tenant, and what they are aimed at."""

import asyncio
import itertools
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from app.adapters.postgres.database import PostgresDatabase
from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.ids import DocumentId, TenantId, uuid7
from tests.support.databases import Cloned
from tests.support.pdfs import Leaf, line
from tests.support.pdfs import document as pdf

PAGES = 1_900
TEXT = "the quick brown fox jumps over the lazy dog and on and on " * 172
"""The text of a page: 10 kB."""
ENDED = 1_200

DOCUMENT = """
insert into daira.documents (tenant_id, id, filename, media_type, size, sha256, language, page_count, metadata)
values ($1, $2, 'made.pdf', 'application/pdf', 1, $3, 'eng', $4, $5::jsonb)
"""
TEXTS = """
insert into daira.pages (tenant_id, document_id, number, text, source, rotation, language)
select $1, $2, n, $3, 'ocr', 0, 'eng' from generate_series(1, $4) n
"""
JOBS = """
insert into daira.jobs (tenant_id, id, document_id, kind, state, run_after, finished_at)
select $1, gen_random_uuid(), $2, 'ocr', 'done', now(), now() from generate_series(1, $3)
"""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The documents of the tenant that attacks, by id."""

    url: str
    key: str
    long: str
    """It has 1,900 pages."""
    worked: str
    """It has 1,200 ended jobs."""
    drawn: str
    """It can be rendered."""


async def aim(cloned: Cloned, *, url: str, key: str, tenant: str, pages: int = PAGES, metadata: int = 16_000) -> Target:
    """Make the documents: those above, and a hundred with as many bytes of metadata."""
    tenant_id, long, worked = TenantId(tenant), DocumentId(uuid7()), DocumentId(uuid7())
    async with administer(cloned.admin_url) as admin:
        for _ in range(100):
            made = DocumentId(uuid7())
            values = json.dumps({f"k{n}": "v" * 10 for n in range(metadata // 20)})
            await admin.execute(DOCUMENT, tenant_id, made, made.hex * 2, 1, values)
        await admin.execute(DOCUMENT, tenant_id, long, long.hex * 2, pages, "{}")
        await admin.execute(TEXTS, tenant_id, long, TEXT, pages)
        await admin.execute(DOCUMENT, tenant_id, worked, worked.hex * 2, 1, "{}")
        await admin.execute(JOBS, tenant_id, worked, ENDED)
    engine = PostgresEngine(cloned.app_url, pool_size=1, name="bench")
    async with PostgresDatabase(engine).begin(tenant_id) as tx:
        await tx.search.index(long)
    await engine.close()
    async with _client(url, key) as client:
        content = pdf(Leaf(content=line("Dear Sir")))
        drawn = (await client.post("/v1/documents", files={"file": ("a.pdf", content)})).json()["id"]
    return Target(url=url, key=key, long=str(long), worked=str(worked), drawn=drawn)


Send = Callable[[httpx.AsyncClient, Target, int], Awaitable[httpx.Response]]


@dataclass(frozen=True, kw_only=True)
class Attack:
    send: Send
    loops: int = 20
    """Clients, each of which sends the next request as soon as the last is answered."""


def _extract(patterns: int, *, fault: bool = False) -> dict[str, Any]:
    wild = [f"^([a-z]{{1,{n % 90 + 10}}}){{1,9}}x{n}$" for n in range(patterns)]
    fields = {f"p{n}": {"type": "string", "pattern": pattern} for n, pattern in enumerate(wild)}
    return {"kind": "extract", "schema": {"type": "object", "properties": fields, "required": 7 if fault else []}}


SCHEMAS = json.dumps([{"kind": "ocr"}, *[_extract(300)] * 13])
FAULTY = _extract(230, fault=True)


async def _schemas(client: httpx.AsyncClient, _target: Target, n: int) -> httpx.Response:
    return await client.post("/v1/documents", files={"file": ("a.txt", b"text %d" % n)}, data={"jobs": SCHEMAS})


async def _faulty(client: httpx.AsyncClient, target: Target, _n: int) -> httpx.Response:
    return await client.post(f"/v1/documents/{target.long}/jobs", json=FAULTY)


async def _search(client: httpx.AsyncClient, target: Target, _n: int) -> httpx.Response:
    asked: dict[str, str | int] = {"q": '"the lazy dog and on"', "document_id": target.long, "limit": 100}
    return await client.get("/v1/search", params=asked)


def _get(path: str) -> Send:
    async def send(client: httpx.AsyncClient, target: Target, _n: int) -> httpx.Response:
        return await client.get(path.format(**asdict(target)))

    return send


async def _image(client: httpx.AsyncClient, target: Target, n: int) -> httpx.Response:
    return await client.get(f"/v1/documents/{target.drawn}/pages/1/image", params={"width": 2_000 + n % 2_000})


async def _poll(client: httpx.AsyncClient, target: Target, _n: int) -> httpx.Response:
    document = (await client.get(f"/v1/documents/{target.drawn}")).json()
    return await client.get(f"/v1/jobs/{document['jobs'][0]['id']}", headers={"Prefer": "wait=60"})


async def _stream(client: httpx.AsyncClient, target: Target, n: int) -> httpx.Response:
    """One client in ten makes the events that the others follow."""
    if n % 10 == 0:
        return await _job(client, target, n)
    async with client.stream("GET", "/v1/events") as answer:
        async for _ in answer.aiter_bytes():
            pass
        return answer


async def _upload(client: httpx.AsyncClient, _target: Target, n: int) -> httpx.Response:
    """One in two is slow, the others have a megabyte."""
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\ntext %d ' % n

    async def body() -> AsyncIterator[bytes]:
        yield head
        if n % 2:
            for _ in range(100):
                await asyncio.sleep(0.5)
                yield b"more " * 100
        else:
            yield b"more " * 200_000
        yield b"\r\n--x--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    return await client.post("/v1/documents", content=body(), headers=headers)


async def _job(client: httpx.AsyncClient, target: Target, n: int) -> httpx.Response:
    pages = {"kind": "ocr", "pages": str(n % 1_000_000 + 1)}
    return await client.post(f"/v1/documents/{target.long}/jobs", json=pages, headers={"Idempotency-Key": str(n)})


ATTACKS: Mapping[str, Attack] = {
    "schemas": Attack(send=_schemas, loops=6),
    "faulty": Attack(send=_faulty),
    "listings": Attack(send=_get("/v1/documents?limit=100")),
    "phrases": Attack(send=_search),
    "text": Attack(send=_get("/v1/documents/{long}/text")),
    "jobs": Attack(send=_get("/v1/documents/{worked}")),
    "pages": Attack(send=_get("/v1/documents/{long}/pages")),
    "images": Attack(send=_image),
    "polls": Attack(send=_poll, loops=300),
    "streams": Attack(send=_stream, loops=100),
    "uploads": Attack(send=_upload, loops=60),
    "requests": Attack(send=_job),
    "history": Attack(send=_get("/v1/jobs?limit=100&document_id={worked}")),
    "openapi": Attack(send=_get("/openapi.json")),
}


async def carry_out(name: str, target: Target) -> None:
    """Attack for ever, and print the number of answers by their status now and then."""
    numbers = itertools.count()
    answers: Counter[int] = Counter()
    async with _client(target.url, target.key) as client:

        async def loop() -> None:
            while True:
                try:
                    answer = await ATTACKS[name].send(client, target, next(numbers))
                    answers[answer.status_code] += 1
                except httpx.TransportError:
                    answers[0] += 1
                if answers.total() % 20 == 1:
                    print(json.dumps(answers), flush=True)

        print(json.dumps(answers), flush=True)
        await asyncio.gather(*(loop() for _ in range(ATTACKS[name].loops)))


def _client(url: str, key: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=120, trust_env=False)


if __name__ == "__main__":
    asyncio.run(carry_out(sys.argv[1], Target(**json.loads(sys.argv[2]))))
