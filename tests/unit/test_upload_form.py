"""The upload form: whatever a client sends is stored whole or refused with a reason, and nothing is left behind."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from starlette.types import Message

from app.web.bodies import FIELD_LIMIT, METADATA_LIMIT, PARTS_LIMIT
from tests.unit.served import END, PROBLEM, Served, new_bytes, part, served

DEEP = 100_000

FORM = "multipart/form-data"


async def refused(
    web: Served, answer: httpx.Response, *, status: int = 422, code: str = "invalid", pointer: str | None = None
) -> dict[str, Any]:
    """A problem, and neither rows nor bytes."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == PROBLEM
    body: dict[str, Any] = answer.json()
    assert body["code"] == code
    if pointer is not None:
        assert [fault["pointer"] for fault in body["errors"]] == [pointer]
    assert web.blobs == []
    assert (await web.client.get("/v1/documents")).json()["data"] == []
    assert (await web.client.get("/v1/jobs")).json()["data"] == []
    return body


async def accepted(web: Served, answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    body: dict[str, Any] = answer.json()
    assert web.blobs == [f"acme/{body['id']}"]
    assert answer.headers["Location"] == f"/v1/documents/{body['id']}"
    read = (await web.client.get(answer.headers["Location"])).json()
    assert read == body
    return body


def a_file(content: bytes | None = None, *, filename: str = "letter.pdf") -> bytes:
    return part("file", new_bytes() if content is None else content, filename=filename)


async def test_a_file_alone_is_enough(web: Served) -> None:
    body = await accepted(web, await web.form(a_file(b"%PDF-1.7", filename="Brief.pdf") + END))
    assert (body["filename"], body["media_type"], body["size"]) == ("Brief.pdf", "application/pdf", 8)
    assert (body["language"], body["metadata"], body["status"]) == ("eng", {}, "processing")
    assert [(job["kind"], job["state"]) for job in body["jobs"]] == [("ocr", "queued")]
    assert not body["deduplicated"]


async def test_fields_may_come_in_any_order(web: Served) -> None:
    fields = [part("metadata", '{"a": 1}'), part("jobs", '[{"kind": "ocr", "mode": "force"}]'), part("language", "eng")]
    before = await web.form(b"".join(fields) + a_file() + END)
    after = await web.form(a_file() + b"".join(reversed(fields)) + END)
    between = await web.form(fields[0] + a_file() + fields[1] + END)
    for answer in (before, after, between):
        assert answer.status_code == 202, answer.text
        assert answer.json()["metadata"] == {"a": 1}
        assert len(answer.json()["jobs"]) == 1


async def test_a_body_may_arrive_byte_by_byte(web: Served) -> None:
    content = b"%PDF-1.7 \r\n--y\r\n-\r\n--\r\r\n"
    body = part("metadata", '{"name": "Müller"}') + a_file(content) + END

    async def trickle() -> AsyncIterator[bytes]:
        for position in range(len(body)):
            yield body[position : position + 1]

    answer = await accepted(web, await web.form(trickle()))
    assert (answer["size"], answer["metadata"]) == (len(content), {"name": "Müller"})


async def test_no_jobs_may_be_asked_for(web: Served) -> None:
    assert (await accepted(web, await web.form(a_file() + part("jobs", "[]") + END)))["jobs"] == []


async def test_the_same_bytes_again_are_the_same_document(web: Served) -> None:
    first = await web.upload(b"%PDF-same")
    again = await web.upload(b"%PDF-same", metadata='{"other": true}')
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == first.json() | {"deduplicated": True}
    assert again.headers["Location"] == first.headers["Location"]
    assert web.blobs == [f"acme/{first.json()['id']}"]


async def test_a_form_without_a_file_is_refused(web: Served) -> None:
    await refused(web, await web.form(END), pointer="/file")
    await refused(web, await web.form(part("metadata", "{}") + END), pointer="/file")


async def test_an_empty_file_is_refused(web: Served) -> None:
    await refused(web, await web.form(a_file(b"") + END), pointer="/file")


async def test_two_files_are_refused_and_neither_is_kept(web: Served) -> None:
    await refused(web, await web.form(a_file() + a_file() + END), pointer="/file")


@pytest.mark.threat(55)
async def test_a_file_of_an_unsupported_type_is_refused(web: Served) -> None:
    answer = await web.form(a_file(b"MZ\0\1", filename="fake.pdf") + END)
    body = await refused(web, answer, status=415, code="unsupported_media_type")
    assert "PDF" in body["detail"]


@pytest.mark.threat(48)
async def test_a_file_over_the_limit_is_refused_and_one_at_the_limit_accepted() -> None:
    async with served(max_upload_bytes=4096) as web:
        over = await web.form(a_file(b"%PDF-" + b"x" * 4092) + END)
        await refused(web, over, status=413, code="payload_too_large")
        assert (await accepted(web, await web.form(a_file(b"%PDF-" + b"x" * 4091) + END)))["size"] == 4096


@pytest.mark.parametrize("name", ["unknown", "File", "job", "", "a/b~c", "файл"])
async def test_an_unknown_field_is_refused_by_name(web: Served, name: str) -> None:
    body = await refused(web, await web.form(a_file() + part(name, "x") + END))
    assert name in body["detail"]


async def test_a_field_sent_twice_is_refused(web: Served) -> None:
    for name, value in [("metadata", "{}"), ("jobs", "[]"), ("language", "eng")]:
        answer = await web.form(part(name, value) + a_file() + part(name, value) + END)
        await refused(web, answer, pointer=f"/{name}")


async def test_metadata_beyond_its_limit_is_refused(web: Served) -> None:
    fits = json.dumps({"a": "x" * (METADATA_LIMIT - 9)})
    assert len(fits) == METADATA_LIMIT
    assert (await web.upload(metadata=fits)).status_code == 202
    blobs = web.blobs
    answer = await web.upload(metadata=fits + " ")
    assert answer.status_code == 413
    assert answer.json()["errors"][0]["pointer"] == "/metadata"
    assert web.blobs == blobs


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "{",
        "no JSON",
        "[]",
        "null",
        '"text"',
        "1",
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": [{"b": -1e999}]}',
        '{"a": "\\u0000"}',
        '{"\\u0000": 1}',
        '{"a": "\0"}',
        '{"a": "\\ud800"}',
        '{"\\udfff": 1}',
        '{"a": ' + "9" * 5000 + "}",
        "[" * (METADATA_LIMIT - 1),
        '{"a":' * 3_000,
        '{"a":' + "[" * 2000 + "]" * 2000 + "}",
        '{"a":' + "[" * 900 + "]" * 900 + "}",
        '{"a":' + "[" * 300 + "]" * 300 + "}",
    ],
    ids=lambda value: value[:20],
)
async def test_metadata_that_can_not_be_kept_and_given_back_is_refused(web: Served, metadata: str) -> None:
    body = await refused(web, await web.form(a_file() + part("metadata", metadata) + END), pointer="/metadata")
    assert "recursion" not in body["detail"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": {"b": [1, 2.5, True, None, "ü"]}},
        {"": ""},
        {"emoji": "😀"},
        {"n": 2**63},
        {"key\nwith": "\t\r\n"},
        {"deep": [[[[[[[[[[[[]]]]]]]]]]]]},
    ],
)
async def test_metadata_comes_back_as_it_was_sent(web: Served, metadata: dict[str, object]) -> None:
    escaped = await web.form(a_file() + part("metadata", json.dumps(metadata)) + END)
    assert (await accepted(web, escaped))["metadata"] == metadata
    plain = await web.form(a_file() + part("metadata", json.dumps(metadata, ensure_ascii=False)) + END)
    assert plain.json()["metadata"] == metadata


@pytest.mark.parametrize(
    "jobs",
    [
        "",
        "{",
        "{}",
        "null",
        '"ocr"',
        '["ocr"]',
        "[[]]",
        "[{}]",
        '[{"kind": "brew"}]',
        '[{"kind": "ocr"}, {"kind": "brew"}]',
        '[{"kind": "ocr", "unknown": 1}]',
        '[{"kind": "ocr", "mode": "guess"}]',
        '[{"kind": "ocr", "language": "English"}]',
        '[{"kind": "ocr", "language": "eng+"}]',
        '[{"kind": "ocr", "pages": "1-"}]',
        '[{"kind": "ocr", "pages": "all"}]',
        '[{"kind": "ocr", "pages": [1, 2]}]',
        '[{"kind": "ocr", "language": "\\u0000ng"}]',
        '[{"kind": "ocr", "x": NaN}]',
        '[{"kind": "ocr", "\\ud800": 1}]',
        "[" * DEEP,
        json.dumps([{"kind": "ocr"}] * 21),
    ],
    ids=lambda value: value[:20],
)
async def test_jobs_that_are_no_job_requests_are_refused(web: Served, jobs: str) -> None:
    body = await refused(web, await web.form(a_file() + part("jobs", jobs) + END))
    assert body["errors"][0]["pointer"].startswith("/jobs")


async def test_equal_jobs_are_one(web: Served) -> None:
    jobs = [{"kind": "ocr"}, {"kind": "ocr", "mode": "auto"}, {"kind": "ocr", "mode": "force"}]
    body = await accepted(web, await web.form(a_file() + part("jobs", json.dumps(jobs)) + END))
    assert len(body["jobs"]) == 2


@pytest.mark.parametrize("language", ["", "xyz", "english", "en", "eng+", "eng\0", "../eng", "e" * 1000])
async def test_a_language_that_is_not_installed_is_refused(web: Served, language: str) -> None:
    await refused(web, await web.form(a_file() + part("language", language) + END), pointer="/language")


@pytest.mark.threat(50)
async def test_a_field_beyond_its_limit_is_refused(web: Served) -> None:
    body = part("metadata", '{"a": "' + "x" * FIELD_LIMIT + '"}') + a_file() + END
    await refused(web, await web.form(body), status=413, code="payload_too_large", pointer="/metadata")


async def test_a_field_that_is_not_utf8_is_refused(web: Served) -> None:
    await refused(web, await web.form(a_file() + part("language", b"\xff\xfe") + END), pointer="/language")


@pytest.mark.threat(50)
@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/x-www-form-urlencoded",
        "text/plain; boundary=x",
        "multipart/mixed; boundary=x",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary=""',
        "multipart/form-data; boundary*=nope''%ff",
        "multipart/form-data; boundary=" + "y" * 5000,
        "nonsense",
        ";;;===",
    ],
    ids=lambda value: value[:40],
)
async def test_what_is_not_a_form_with_a_boundary_is_refused(web: Served, content_type: str) -> None:
    await refused(web, await web.form(a_file() + END, content_type=content_type))


async def test_a_body_without_a_content_type_is_refused(web: Served) -> None:
    await refused(web, await web.client.post("/v1/documents", content=a_file() + END))


@pytest.mark.threat(50)
@pytest.mark.parametrize("body", [b"", b"--", b"nonsense", b"--y\r\n", b"--x", b"--x\n", b"--x\r\n", b"\r\n\r\n"])
async def test_a_body_that_is_no_form_is_refused(web: Served, body: bytes) -> None:
    await refused(web, await web.form(body))


async def test_a_body_cut_off_anywhere_is_refused(web: Served) -> None:
    whole = part("metadata", "{}") + a_file() + part("language", "eng") + b"--x--"
    for length in range(len(whole)):
        answer = await web.form(whole[:length])
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid"), whole[:length]
    await refused(web, await web.form(whole[:-1]))
    await accepted(web, await web.form(whole))


async def test_a_client_that_leaves_midway_leaves_nothing_behind(web: Served) -> None:
    received: Iterator[Message] = iter(
        [
            {"type": "http.request", "body": a_file(b"%PDF-" + b"x" * 100_000)[:-2], "more_body": True},
            {"type": "http.disconnect"},
        ]
    )
    sent: list[Message] = []

    async def receive() -> Message:
        return next(received)

    async def send(message: Message) -> None:
        sent.append(message)

    request = web.client.build_request("POST", "/v1/documents", headers={"Content-Type": f"{FORM}; boundary=x"})
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/documents",
        "query_string": b"",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
    }
    await web.app(scope, receive, send)
    assert sent[0]["status"] == 499
    assert web.blobs == []
    assert (await web.client.get("/v1/documents")).json()["data"] == []


@pytest.mark.threat(50)
async def test_too_many_parts_are_refused(web: Served) -> None:
    many = b"".join(part(f"field{number}", "x") for number in range(PARTS_LIMIT))
    body = await refused(web, await web.form(a_file() + many + END))
    assert "count exceeded" in body["detail"]


@pytest.mark.threat(50)
@pytest.mark.parametrize(
    "headers",
    [
        b"",
        b"Content-Disposition: form-data\r\n",
        b"Content-Disposition: attachment; name=file\r\n",
        b"Content-Type: text/plain\r\n",
        b'Content-Disposition: form-data; name="\xff\xfe"\r\n',
        b'Content-Disposition: form-data; name="file"; filename="\xff\xfe"\r\n',
        b"no colon\r\n",
        b"bad name: x\r\n",
        b"X: " + b"y" * 10_000 + b"\r\n",
        b"".join(b"X-%d: y\r\n" % number for number in range(20)),
        b'Content-Disposition: form-data; name="' + b"n" * 10_000 + b'"\r\n',
        b'Content-Disposition: form-data; name="file"\r\nContent-Length: 1\r\n',
        b'Content-Disposition: form-data; name="file"\r\nContent-Length: -1\r\n',
    ],
    ids=lambda value: value[:40].decode("latin-1"),
)
async def test_a_part_with_odd_or_long_headers_is_refused(web: Served, headers: bytes) -> None:
    body = await refused(web, await web.form(b"--x\r\n" + headers + b"\r\n%PDF-1.7\r\n" + END))
    assert "Error" not in body["detail"]


@pytest.mark.threat(56)
@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\\\letters\\\\letter.pdf", "letter.pdf"),
        ("", "document"),
        ("\u202efdp.exe", "fdp.exe"),
        ("請求書.pdf", "請求書.pdf"),
        ("x" * 1000, "x" * 255),
    ],
)
async def test_a_files_name_is_shown_harmless(web: Served, sent: str, shown: str) -> None:
    assert (await accepted(web, await web.form(a_file(filename=sent) + END)))["filename"] == shown
