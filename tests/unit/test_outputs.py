"""The routes of outputs: what they answer before there is text, without pages, to who has it already, and to many."""

import asyncio
import io
from collections.abc import AsyncIterator
from hashlib import sha256
from uuid import UUID

import httpx
import pytest
from PIL import Image

from app.domain.documents import JOBS_SHOWN, Document, blob_key
from app.domain.errors import DocumentFault, NotFound
from app.domain.formats.formats import MARKDOWN
from app.domain.ids import DocumentId
from app.reading.null import NullRenderer
from app.services import outputs
from app.services.renditions import IN_MEMORY, Rendition
from tests.support.rig import new_document, new_page
from tests.unit.served import ACME, PROBLEM, Served

FORMS = {
    "searchable.pdf": ("application/pdf", "letter.searchable.pdf"),
    "hocr": ("text/html; charset=utf-8", "letter.hocr"),
    "alto": ("application/xml; charset=utf-8", "letter.alto.xml"),
    "markdown": ("text/markdown; charset=utf-8", "letter.md"),
}


async def got(web: Served, document: object, form: str, **headers: str) -> httpx.Response:
    return await web.client.get(f"/v1/documents/{document}/{form}", headers=headers)


async def with_pages(
    web: Served, count: int, *, media_type: str = "application/pdf", content: bytes = b"%PDF-1.7 of some pages"
) -> Document:
    """A document as a worker leaves it, with the pages of a rig."""
    async with web.runtime.outputs.database.begin(ACME) as tx:
        document = new_document(
            ACME, media_type=media_type, sha256=sha256(content).hexdigest(), size=len(content), page_count=None
        )
        assert await tx.documents.add(document)
        await tx.pages.replace(document.id, [new_page(number, text=f"page-{number}") for number in range(1, count + 1)])
        await tx.documents.set_read(document.id, page_count=count)
    await web.runtime.outputs.blobs.put(blob_key(ACME, document.id), whole(content))
    return document


async def test_text_and_pages_are_sent_batch_by_batch_and_without_words(
    web: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "TEXTS_AT_A_TIME", 2)
    document = await with_pages(web, 5)
    assert (await got(web, document.id, "text")).text == "\f".join(f"page-{number}" for number in range(1, 6))
    listed = (await got(web, document.id, "pages")).json()["data"]
    assert [(page["number"], page["text"]) for page in listed] == [(n, f"page-{n}") for n in range(1, 6)]
    batches = [
        len(batch) async for batch in outputs.pages_in_batches(web.runtime.outputs.database, document, words=False)
    ]
    assert batches == [2, 2, 1]
    empty = await with_pages(web, 0, content=b"%PDF-1.7 of none")
    assert (await got(web, empty.id, "text")).text == ""
    assert (await got(web, empty.id, "pages")).json() == {"data": []}


async def test_a_document_comes_with_so_many_of_its_jobs_and_says_that_there_are_more(web: Served) -> None:
    document = await web.uploaded()
    path = f"/v1/documents/{document['id']}"
    assert document["more_jobs"] is False
    oldest = document["jobs"][0]["id"]
    for number in range(1, JOBS_SHOWN + 2):
        job = (await web.client.post(f"{path}/jobs", json={"kind": "ocr", "pages": str(number)})).json()
        await web.client.post(f"/v1/jobs/{job['id']}/cancel")
    for shown in ((await web.client.get(path)).json(), (await web.client.get("/v1/documents")).json()["data"][0]):
        ids = [job["id"] for job in shown["jobs"]]
        assert len(ids) == JOBS_SHOWN
        assert ids == sorted(ids, reverse=True)
        assert shown["more_jobs"] is True
        # The one job that is not over is still among them, and decides on the status.
        assert oldest in ids
        assert shown["status"] == "processing"


async def whole(content: bytes) -> AsyncIterator[bytes]:
    yield content


@pytest.mark.parametrize("form", FORMS)
async def test_a_form_of_the_text_is_not_ready_before_the_text_is(web: Served, form: str) -> None:
    document = await web.uploaded()
    answer = await got(web, document["id"], form)
    assert (answer.status_code, answer.json()["code"]) == (409, "not_ready")
    assert answer.headers["Retry-After"]


@pytest.mark.parametrize("form", FORMS)
async def test_a_form_of_a_text_that_never_comes_is_a_conflict(web: Served, form: str) -> None:
    document = await web.uploaded()
    await web.client.post(f"/v1/jobs/{document['jobs'][0]['id']}/cancel")
    answer = await got(web, document["id"], form)
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


@pytest.mark.threat(57)
@pytest.mark.parametrize("form", FORMS)
async def test_a_form_is_a_download_of_its_own_type_and_name(web: Served, form: str) -> None:
    media_type, name = FORMS[form]
    answer = await got(web, (await with_pages(web, 1)).id, form)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == media_type
    assert answer.headers["Content-Disposition"].endswith(f"filename*=UTF-8''{name}")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("form", ["hocr", "alto", "markdown"])
async def test_a_form_has_every_page_once_and_in_order_however_many_there_are(web: Served, form: str) -> None:
    count = outputs.PAGES_AT_A_TIME * 2 + 3
    text = (await got(web, (await with_pages(web, count)).id, form)).text.replace("\\", "")
    found = [text.find(f"page-{number}<" if form == "hocr" else f"page-{number}") for number in range(1, count + 1)]
    assert found == sorted(found)
    assert -1 not in found


async def test_a_document_that_is_removed_midway_is_broken_off_and_never_ends_like_a_whole_one(web: Served) -> None:
    document = await with_pages(web, outputs.PAGES_AT_A_TIME * 3)
    text = web.runtime.outputs.written(document, MARKDOWN)
    await anext(text)
    assert b"page" in await anext(text)
    await web.client.delete(f"/v1/documents/{document.id}")
    with pytest.raises(NotFound):
        await rest_of(text)


async def rest_of(text: AsyncIterator[bytes]) -> list[bytes]:
    return [page async for page in text]


async def test_no_transaction_is_open_while_a_reader_takes_its_time(web: Served) -> None:
    document = await with_pages(web, outputs.PAGES_AT_A_TIME * 3)
    text = web.runtime.outputs.written(document, MARKDOWN)
    await anext(text)
    await anext(text)
    # The memory store lets one in at a time: another transaction would wait for ever.
    async with asyncio.timeout(5), web.runtime.outputs.database.begin(ACME) as tx:
        assert await tx.documents.get(document.id)


async def test_a_page_image_is_as_wide_as_asked_for_and_there_before_the_text(web: Served) -> None:
    document = await web.uploaded()
    for asked, width in (("", 1000), ("?width=16", 16), ("?width=4000", 4000)):
        answer = await got(web, document["id"], f"pages/1/image{asked}")
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/png")
        assert Image.open(io.BytesIO(answer.content)).width == width
        assert answer.headers["Content-Length"] == str(len(answer.content))


@pytest.mark.parametrize("asked", ["?width=15", "?width=4001", "?width=1e3", "?width=", "?width=99999999999999999999"])
async def test_a_width_beyond_reason_is_refused(web: Served, asked: str) -> None:
    document = await web.uploaded()
    answer = await got(web, document["id"], f"pages/1/image{asked}")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/width")


@pytest.mark.parametrize("number", ["0", "2", "-1", "99999999999999999999"])
async def test_a_page_that_is_not_there_has_no_image(web: Served, number: str) -> None:
    document = await web.uploaded()
    answer = await got(web, document["id"], f"pages/{number}/image")
    assert (answer.status_code, answer.json()["detail"]) == (404, "there is no such page")


async def test_a_page_image_that_the_client_has_is_neither_drawn_nor_sent_again(web: Served) -> None:
    document = await web.uploaded()
    first = await got(web, document["id"], "pages/1/image?width=100")
    assert first.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    assert first.headers["Vary"] == "Authorization"
    await web.runtime.outputs.blobs.delete(blob_key(ACME, DocumentId(UUID(document["id"]))))
    again = await got(web, document["id"], "pages/1/image?width=100", **{"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = await got(web, document["id"], "pages/1/image?width=101", **{"If-None-Match": first.headers["ETag"]})
    assert other.status_code == 404, "drawn anew, and there is nothing left to draw"


@pytest.mark.parametrize("form", ["pages/1/image", "searchable.pdf"])
async def test_a_document_that_has_no_pages_to_look_at_says_so(web: Served, form: str) -> None:
    document = await with_pages(web, 1, media_type="text/plain")
    answer = await got(web, document.id, form)
    assert (answer.status_code, answer.headers["Content-Type"]) == (409, PROBLEM)
    assert "text/plain" in answer.json()["detail"]
    assert (await got(web, document.id, "hocr")).status_code == 200


@pytest.mark.threat(53)
@pytest.mark.parametrize("form", ["pages/1/image", "searchable.pdf"])
@pytest.mark.parametrize("code", ["corrupt", "encrypted", "timeout", "too_large"])
async def test_what_a_file_is_to_blame_for_is_a_conflict_and_no_failure_of_ours(
    web: Served, monkeypatch: pytest.MonkeyPatch, form: str, code: str
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise DocumentFault(code, "It is like that.")

    monkeypatch.setattr(NullRenderer, "page_image", fail)
    monkeypatch.setattr(NullRenderer, "searchable", fail)
    answer = await got(web, (await with_pages(web, 1)).id, form)
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert code in answer.json()["detail"]


async def test_renditions_that_were_taken_leave_nothing_behind(web: Served) -> None:
    document = await with_pages(web, 1)
    for _ in range(3):
        assert (await got(web, document.id, "searchable.pdf")).status_code == 200
        assert (await got(web, document.id, "pages/7/image")).status_code == 404
    assert web.runtime.renditions.turns.idle


async def test_a_tenant_that_takes_nothing_away_gets_no_more_and_others_do(web: Served) -> None:
    document = await with_pages(web, 1)
    held: list[Rendition] = []
    while (answer := await got(web, document.id, "pages/1/image")).status_code == 200:
        held.append(await web.runtime.renditions.page_image(document, 1, width=16))
        assert len(held) < 100
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
    assert answer.headers["Retry-After"]
    globex = await web.key_of("globex")
    theirs = await web.client.post("/v1/documents", files={"file": ("a.pdf", b"%PDF-1.7")}, headers=globex)
    assert (await got(web, theirs.json()["id"], "pages/1/image", **globex)).status_code == 200
    for rendition in held:
        rendition.close()
    assert (await got(web, document.id, "pages/1/image")).status_code == 200


async def test_a_large_result_waits_on_disk(web: Served) -> None:
    rendition = await web.runtime.renditions.page_image(await with_pages(web, 1), 1, width=16)
    assert rendition.size < IN_MEMORY
    rendition.close()
    rendition.close()
    assert web.runtime.renditions.turns.idle
