"""Outputs by the service itself, with its own children: of long documents in flat memory, of bad ones without harm."""

import asyncio
import io
import tracemalloc
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import httpx
import pytest
import pytest_asyncio
from PIL import Image

from app.domain.documents import Document, blob_key
from app.domain.pages import Page, Source, Word, text_of
from app.services.renditions import IN_MEMORY
from tests.support.rig import new_document
from tests.support.sample_documents import Sheet, drawn, encoded, encrypted_pdf, pdf
from tests.support.scans import selected, whole
from tests.unit.asgi import scope_of
from tests.unit.served import ACME, PROBLEM, Served, served

PAGES = 200
MEGABYTE = 1 << 20

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def web() -> AsyncIterator[Served]:
    async with served(ocr="auto", ocr_page_seconds=20) as web:
        yield web


def read_page(number: int, words: int = 300) -> Page:
    placed = tuple(
        Word(
            text=f"w{number}.{index}",
            box=(36 + index % 10 * 54, 36 + index // 10 * 20, 80 + index % 10 * 54, 50 + index // 10 * 20),
            confidence=0.9,
            source=Source.OCR,
            line=index // 10,
            block=0,
        )
        for index in range(words)
    )
    return Page(
        number=number,
        text=text_of(placed),
        source=Source.OCR,
        confidence=0.9,
        width=612,
        height=792,
        rotation=0,
        language="eng",
        words=placed,
    )


async def stored(web: Served, content: bytes, pages: list[Page], *, media_type: str = "application/pdf") -> Document:
    """A document as a worker leaves it."""
    document = new_document(ACME, sha256=sha256(content).hexdigest(), size=len(content), media_type=media_type)
    async with web.runtime.outputs.database.begin(ACME) as tx:
        assert await tx.documents.add(document)
        await tx.pages.replace(document.id, pages)
        await tx.documents.set_read(document.id, page_count=len(pages))
    await web.runtime.outputs.blobs.put(blob_key(ACME, document.id), whole(content))
    return document


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def long_document(web: Served) -> Document:
    """Of 200 pages and some 13 megabytes."""
    noise = Image.effect_noise((300, 220), 90)
    content = pdf(*[Sheet(image=noise) for _ in range(PAGES)])
    assert len(content) > 10 * MEGABYTE
    return await stored(web, content, [read_page(number) for number in range(1, PAGES + 1)])


@pytest.mark.parametrize("form", ["searchable.pdf", "hocr", "alto", "markdown", "content"])
async def test_memory_does_not_grow_with_what_is_handed_out(web: Served, long_document: Document, form: str) -> None:
    url = f"/v1/documents/{long_document.id}/{form}"
    tracemalloc.start()
    try:
        arrived, peak = await arriving(web, url)
    finally:
        tracemalloc.stop()
    assert arrived > (0.4 if form == "markdown" else 5) * MEGABYTE
    assert peak < 6 * MEGABYTE, f"{peak:,} bytes"


async def arriving(web: Served, url: str) -> tuple[int, int]:
    """The bytes of an answer that is thrown away as it comes, and the most memory that was taken meanwhile."""
    arrived = 0

    async def send(message: Any) -> None:
        nonlocal arrived
        arrived += len(message.get("body", b""))
        assert message.get("status", 200) == 200

    before = tracemalloc.get_traced_memory()[0]
    await web.app(scope_of(web.client, url), never, send)
    return arrived, tracemalloc.get_traced_memory()[1] - before


async def never() -> Any:
    await asyncio.Event().wait()
    raise AssertionError


async def test_every_page_of_a_long_document_is_in_the_copy(web: Served, long_document: Document) -> None:
    answer = await web.client.get(f"/v1/documents/{long_document.id}/searchable.pdf", timeout=60)
    assert len(answer.content) > IN_MEMORY
    texts = selected(answer.content).split("\f")
    assert [text.split() for text in texts] == [read_page(number).text.split() for number in range(1, PAGES + 1)]
    assert web.runtime.renditions.turns.idle


async def test_a_page_of_an_upload_can_be_looked_at_at_once(web: Served) -> None:
    document = await web.uploaded(content=encoded(drawn("Hello there", size=(600, 200)), "JPEG"))
    answer = await web.client.get(f"/v1/documents/{document['id']}/pages/1/image?width=300")
    assert answer.status_code == 200
    assert Image.open(io.BytesIO(answer.content)).size == (300, 100)


@pytest.mark.threat(53)
@pytest.mark.parametrize("form", ["pages/1/image", "searchable.pdf"])
@pytest.mark.parametrize("content", [b"%PDF-1.7 nothing", encrypted_pdf(), pdf(), pdf(Sheet())[:60]], ids=range(4))
async def test_a_file_that_can_not_be_drawn_is_a_problem_and_no_failure(web: Served, content: bytes, form: str) -> None:
    # Unlike any before: each is uploaded once.
    document = await stored(web, content + f"\n% {form}".encode(), [read_page(1)])
    answer = await web.client.get(f"/v1/documents/{document.id}/{form}")
    assert (answer.status_code, answer.headers["Content-Type"]) == (409, PROBLEM)
    assert answer.json()["code"] == "conflict"


async def test_many_at_once_are_all_served_by_few_children(web: Served) -> None:
    document = await web.uploaded(content=pdf(Sheet(lines=("Hello there",))))
    url = f"/v1/documents/{document['id']}/pages/1/image"
    answers: list[httpx.Response] = await asyncio.gather(
        *(web.client.get(url, params={"width": 100 + number}) for number in range(12))
    )
    assert [answer.status_code for answer in answers] == [200] * 12
    renderer = web.runtime.renditions.renderer
    assert len(renderer._pool._living) <= web.runtime.settings.renderers  # type: ignore[attr-defined]
