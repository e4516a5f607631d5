"""The original is handed out byte for byte, whole or in a range, under a name that can do nothing."""

import hashlib
from collections.abc import AsyncIterator
from email.message import Message
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.adapters.memory.blobs import MemoryBlobs
from app.domain.documents import displayable_filename
from app.web.file_responses import ByteRange, attachment, matches_etag, requested_range, with_suffix
from tests.unit.served import PROBLEM, Served

CONTENT = b"%PDF-1.7 " + bytes(range(256)) * 4
SIZE = len(CONTENT)

NAMES = [
    "../../etc/passwd",
    "..\\..\\windows\\system.ini",
    "invoice\u202efdp.exe",
    "é" * 300 + ".pdf",
    "x\r\nSet-Cookie: a=b.pdf",
    'quo"te;filename=other.exe',
    "percent%0d%0a.pdf",
    "nul\0.pdf",
    "",
    "..",
    "請求書 2026.pdf",
]


async def uploaded(web: Served, content: bytes = CONTENT, *, name: str = "letter.pdf") -> str:
    # By hand: a client would not send such names as they are.
    quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "%0D").replace("\n", "%0A")
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n\r\n'.encode()
    answer = await web.form(head + content + b"\r\n--x--\r\n")
    assert answer.status_code in {200, 202}, answer.text
    identity: str = answer.json()["id"]
    return identity


async def got(web: Served, document: str, **headers: str) -> httpx.Response:
    return await web.client.get(f"/v1/documents/{document}/content", headers=headers)


async def test_the_original_comes_back_byte_for_byte(web: Served) -> None:
    answer = await got(web, await uploaded(web))
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["Content-Length"] == str(SIZE)
    assert answer.headers["Content-Type"] == "application/pdf"
    assert answer.headers["ETag"] == f'"{hashlib.sha256(CONTENT).hexdigest()}"'
    assert answer.headers["Accept-Ranges"] == "bytes"


@pytest.mark.threat(57)
@pytest.mark.parametrize(
    "content",
    [b"%PDF-1.7 <script>alert(1)</script>", b"GIF89a/*<html>*/=1;alert(1)//", b"<html>%PDF-1.7 <script>alert(1)"],
    ids=["pdf", "gif", "html"],
)
async def test_no_browser_runs_or_guesses_at_what_was_uploaded(web: Served, content: bytes) -> None:
    answer = await got(web, await uploaded(web, content, name="page.html"))
    assert answer.content == content
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Type"] in {"application/pdf", "image/gif"}


@pytest.mark.threat(56, 57)
@pytest.mark.parametrize("name", NAMES, ids=ascii)
async def test_a_name_comes_back_as_it_is_shown_and_does_nothing_else(web: Served, name: str) -> None:
    document = await uploaded(web, name=name)
    shown = (await web.client.get(f"/v1/documents/{document}")).json()["filename"]
    answer = await got(web, document)
    disposition = answer.headers["Content-Disposition"]
    assert filename(disposition) == shown
    assert len(shown.encode()) <= 255
    assert disposition.isascii()
    assert disposition.isprintable()
    assert [value for key, value in answer.headers.multi_items() if key == "content-disposition"] == [disposition]
    assert "set-cookie" not in answer.headers
    assert all(part.isalnum() or part in "/-" for part in "".join(web.blobs))
    assert not any(shown in key for key in web.blobs)


@given(name=st.text())
def test_whatever_the_name_the_header_says_it_and_nothing_else(name: str) -> None:
    shown = displayable_filename(name)
    disposition = attachment(shown)
    disposition.encode("latin-1")
    assert disposition.isprintable()
    assert filename(disposition) == shown
    parsed = Message()
    parsed["Content-Disposition"] = disposition
    parameters = parsed.get_params(header="Content-Disposition") or []
    assert {key.rstrip("*") for key, _ in parameters} == {"attachment", "filename"}


def filename(disposition: str) -> str:
    start, _, encoded = disposition.partition("filename*=UTF-8''")
    assert start.startswith("attachment;")
    return unquote(encoded, errors="strict")


@pytest.mark.parametrize(
    ("name", "suffix", "new"),
    [
        ("letter.pdf", ".md", "letter.md"),
        ("a.b.tiff", ".hocr", "a.b.hocr"),
        ("letter", ".md", "letter.md"),
        (".pdf", ".md", ".pdf.md"),
    ],
)
def test_another_form_has_the_same_name_with_its_own_suffix(name: str, suffix: str, new: str) -> None:
    assert with_suffix(name, suffix) == new


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        ("bytes=1000-", 1000, SIZE),
        ("bytes=-7", SIZE - 7, SIZE),
        ("bytes=0-99999", 0, SIZE),
        ("bytes=-99999", 0, SIZE),
        (f"bytes={SIZE - 1}-", SIZE - 1, SIZE),
    ],
)
async def test_a_range_is_given_alone(web: Served, asked: str, start: int, end: int) -> None:
    answer = await got(web, await uploaded(web), Range=asked)
    assert (answer.status_code, answer.content) == (206, CONTENT[start:end])
    assert answer.headers["Content-Range"] == f"bytes {start}-{end - 1}/{SIZE}"
    assert answer.headers["Content-Length"] == str(end - start)


@pytest.mark.threat(58)
@pytest.mark.parametrize("asked", [f"bytes={SIZE}-", f"bytes={SIZE}-{SIZE + 5}", "bytes=-0", f"bytes={10**18}-"])
async def test_a_range_beyond_the_end_is_refused_with_the_size(web: Served, asked: str) -> None:
    answer = await got(web, await uploaded(web), Range=asked)
    assert (answer.status_code, answer.headers["Content-Type"]) == (416, PROBLEM)
    assert answer.headers["Content-Range"] == f"bytes */{SIZE}"
    assert answer.json()["code"] == "invalid"


@pytest.mark.threat(58)
@pytest.mark.parametrize(
    "asked",
    [
        "bytes=0-1,3-4",
        "bytes=" + ",".join(["0-"] * 2000),
        "bytes=9-5",
        "bytes=-",
        "bytes=a-b",
        "bytes=--5",
        "lines=1-2",
        "",
        "bytes=" + "9" * 5000 + "-",
        "bytes=٣-٤",
    ],
    ids=lambda asked: ascii(asked)[:20],
)
async def test_several_ranges_or_what_is_none_are_answered_with_the_whole_once(web: Served, asked: str) -> None:
    answer = await web.client.get(f"/v1/documents/{await uploaded(web)}/content", headers=[(b"Range", asked.encode())])
    assert (answer.status_code, answer.content) == (200, CONTENT)


@given(st.integers(0, 30), st.one_of(st.none(), st.integers(0, 30)), st.integers(1, 20))
def test_a_range_lies_within_the_document(first: int, last: int | None, size: int) -> None:
    asked = f"bytes={first}-{'' if last is None else last}"
    if (last is not None and last < first) or first >= size:
        return
    assert requested_range(asked, size=size) == ByteRange(first, size if last is None else min(last + 1, size))


async def test_an_if_range_of_other_bytes_gives_all_of_them(web: Served) -> None:
    document = await uploaded(web)
    tag = (await got(web, document)).headers["ETag"]
    assert (await got(web, document, **{"Range": "bytes=0-3", "If-Range": tag})).status_code == 206
    for other in ('"other"', "Wed, 21 Oct 2026 07:28:00 GMT", f"W/{tag}"):
        answer = await got(web, document, **{"Range": "bytes=0-3", "If-Range": other})
        assert (answer.status_code, answer.content) == (200, CONTENT)


async def test_bytes_that_the_client_has_already_are_not_sent_again(web: Served) -> None:
    document = await uploaded(web)
    tag = (await got(web, document)).headers["ETag"]
    answer = await got(web, document, **{"If-None-Match": f'"x", W/{tag}'})
    assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", tag)
    assert not matches_etag(None, "x")
    assert matches_etag("*", "x")


async def test_head_says_what_get_would(web: Served) -> None:
    document = await uploaded(web)
    head, body = await web.client.head(f"/v1/documents/{document}/content"), await got(web, document)
    assert head.content == b""
    for name in ("Content-Length", "Content-Type", "ETag", "Content-Disposition", "Accept-Ranges", "Cache-Control"):
        assert head.headers[name] == body.headers[name]


@pytest.mark.threat(57, 77)
async def test_no_shared_cache_keeps_a_document_and_no_private_one_mixes_up_keys(web: Served) -> None:
    answer = await got(web, await uploaded(web))
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert answer.headers["Vary"] == "Authorization"


@pytest.mark.threat(61)
async def test_bytes_that_were_exchanged_in_the_store_never_arrive_as_a_whole(web: Served) -> None:
    document = await uploaded(web)
    blobs = web.runtime.outputs.blobs
    assert isinstance(blobs, MemoryBlobs)
    [key] = web.blobs
    await blobs.put(key, whole(b"%PDF-1.7 other bytes"))
    answer = await got(web, document)
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


async def whole(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def test_a_document_whose_bytes_are_gone_is_not_found(web: Served) -> None:
    document = await uploaded(web)
    await web.runtime.outputs.blobs.delete(web.blobs[0])
    answer = await got(web, document)
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, PROBLEM)
