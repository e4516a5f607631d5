"""Errors as a caller sees them: one shape, the right status, and nothing told that is not theirs to know."""

import json
import re
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx
import pytest
from structlog.testing import capture_logs

from app.domain.errors import (
    Conflict,
    DairaError,
    DocumentFault,
    Forbidden,
    Invalid,
    NotFound,
    NotReady,
    TooLarge,
    TooMany,
    Unauthorized,
    Unavailable,
    Unsupported,
)
from app.telemetry import Metrics
from app.web.errors import AWAY
from tests.support.rig import SECOND
from tests.unit.served import ACME, PROBLEM, Served, part

KNOWN: list[tuple[DairaError, int, str]] = [
    (Unauthorized("u"), 401, "unauthorized"),
    (Forbidden("f"), 403, "forbidden"),
    (NotFound("n"), 404, "not_found"),
    (Conflict("c"), 409, "conflict"),
    (NotReady("r"), 409, "not_ready"),
    (TooLarge("l"), 413, "payload_too_large"),
    (Unsupported("s"), 415, "unsupported_media_type"),
    (Invalid("i"), 422, "invalid"),
    (TooMany("m", retry_after=SECOND), 429, "too_many_requests"),
    (Unavailable("a", public=True), 503, "unavailable"),
]

UNFORESEEN = [RuntimeError("secret"), DocumentFault("encrypted", "secret"), DairaError("secret")]


def raising(web: Served, error: Exception) -> None:
    """Let every listing of jobs end with this error."""

    async def fail(*_: object, **__: object) -> None:
        raise error

    # No operation is described with errors that a test has thought out.
    web.client.event_hooks = {}

    class Failing:
        newest = staticmethod(fail)

    web.app.state.runtime = replace(web.runtime, jobs=Failing())  # type: ignore[arg-type]


def problem(answer: httpx.Response) -> dict[str, Any]:
    assert answer.headers["Content-Type"] == PROBLEM
    body: dict[str, Any] = answer.json()
    assert body["status"] == answer.status_code
    assert body["request_id"] == answer.headers["X-Request-ID"]
    return body


@pytest.mark.parametrize(("error", "status", "code"), KNOWN, ids=lambda value: type(value).__name__)
async def test_an_error_is_answered_with_its_status_its_code_and_its_text(
    web: Served, error: DairaError, status: int, code: str
) -> None:
    raising(web, error)
    body = problem(await web.client.get("/v1/jobs"))
    assert (body["status"], body["code"], body["detail"]) == (status, code, str(error))
    # What is not valid is pointed to, if only as the whole.
    pointers = [fault["pointer"] for fault in body.pop("errors", [])]
    assert pointers == (["/"] if code == "invalid" else [])
    assert set(body) == {"type", "title", "status", "detail", "code", "request_id"}
    assert body["type"] == "about:blank"


@pytest.mark.threat(70)
async def test_the_log_and_not_the_caller_is_told_what_is_not_available(web: Served) -> None:
    raising(web, Unavailable("the blob store failed: No space left on device"))
    with capture_logs() as logged:
        answer = await web.client.get("/v1/jobs")
    assert problem(answer)["detail"] == AWAY
    assert "No space" not in answer.text
    (line,) = (line for line in logged if line["event"] == "request_unavailable")
    assert line["reason"] == "the blob store failed: No space left on device"


@pytest.mark.threat(70)
@pytest.mark.parametrize("error", UNFORESEEN, ids=lambda error: type(error).__name__)
async def test_an_unforeseen_error_is_a_500_that_says_nothing_of_it(web: Served, error: Exception) -> None:
    raising(web, error)
    answer = await web.client.get("/v1/jobs", headers={"X-Request-ID": "mine"})
    body = problem(answer)
    assert (body["status"], body["code"], body["request_id"]) == (500, "internal", "mine")
    assert "secret" not in answer.text
    assert "mine" not in body["detail"]
    assert type(error).__name__ not in answer.text


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (NotReady("r", retry_after=SECOND * 2.5), "3"),
        (TooMany("m", retry_after=SECOND * 60), "60"),
        (Unavailable("a"), "5"),
    ],
)
async def test_who_may_try_again_is_told_when(web: Served, error: DairaError, seconds: str) -> None:
    raising(web, error)
    assert (await web.client.get("/v1/jobs")).headers["Retry-After"] == seconds


async def test_who_is_not_known_is_told_how_to_say_so(web: Served) -> None:
    del web.client.headers["Authorization"]
    answer = await web.client.get("/v1/documents")
    assert problem(answer)["code"] == "unauthorized"
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="daira"'


@pytest.mark.threat(45)
@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "daira_acme_secret", "Token daira_acme_x"])
async def test_anything_but_a_bearer_key_is_a_401(web: Served, header: str) -> None:
    assert (await web.client.get("/v1/jobs", headers={"Authorization": header})).status_code == 401


@pytest.mark.threat(44, 45)
async def test_unknown_wrong_revoked_and_expired_keys_get_the_same_401(web: Served) -> None:
    expired = await web.runtime.tenants.issue_key(ACME, name="expired", expires_in=-SECOND)
    revoked = await web.runtime.tenants.issue_key(ACME, name="revoked")
    (revoked_id,) = [key.id for key in await web.runtime.tenants.keys(ACME) if key.name == "revoked"]
    await web.runtime.tenants.revoke_key(ACME, revoked_id)
    keys = [expired, revoked, "daira_acme_wrong", "daira_nobody_wrong", "daira_acme", "nonsense"]
    answers = [await web.client.get("/v1/jobs", headers={"Authorization": f"Bearer {key}"}) for key in keys]
    assert {answer.status_code for answer in answers} == {401}
    assert len({without_request_id(answer) for answer in answers}) == 1


ROUTES = [
    ("GET", "/v1/documents/{}"),
    ("DELETE", "/v1/documents/{}"),
    ("GET", "/v1/documents/{}/text"),
    ("GET", "/v1/documents/{}/pages"),
    ("GET", "/v1/documents/{}/pages/1"),
    ("POST", "/v1/documents/{}/jobs"),
]
JOB_ROUTES = [("GET", "/v1/jobs/{}"), ("POST", "/v1/jobs/{}/cancel")]

MALFORMED = ["1", "null", "...", "%00", "x" * 2000, "0199c0de-0000-7000-8000", "%F0%9F%98%80", "' or 1=1 --"]


@pytest.mark.threat(39)
@pytest.mark.parametrize(("method", "path"), ROUTES + JOB_ROUTES)
async def test_malformed_unknown_and_foreign_ids_get_the_same_404_byte_for_byte(
    web: Served, method: str, path: str
) -> None:
    theirs = await web.uploaded()
    foreign = theirs["jobs"][0]["id"] if path.startswith("/v1/jobs") else theirs["id"]
    other = await web.key_of("other")
    body = {"kind": "ocr"} if path.endswith("/jobs") else None
    answers = [
        await web.client.request(method, path.format(identity), headers=other, json=body)
        for identity in [foreign, str(uuid4()), *MALFORMED]
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert len({without_request_id(answer) for answer in answers}) == 1
    assert len({frozenset(answer.headers) for answer in answers}) == 1
    assert (await web.client.get(f"/v1/documents/{theirs['id']}")).status_code == 200


async def test_an_address_that_is_none_is_a_404(web: Served) -> None:
    body = problem(await web.client.get("/v1/nothing/here"))
    assert (body["code"], body["detail"]) == ("not_found", "there is nothing at this address")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("PUT", "/v1/documents", "POST"), ("POST", "/healthz", "GET"), ("PATCH", "/v1/jobs/x", "GET")],
)
async def test_another_method_is_a_405_that_names_one_that_works(
    web: Served, method: str, path: str, allowed: str
) -> None:
    answer = await web.client.request(method, path)
    assert problem(answer)["code"] == "method_not_allowed"
    assert allowed in answer.headers["Allow"]


@pytest.mark.parametrize(
    ("call", "body", "pointer"),
    [
        ("GET /v1/documents?limit=0", None, "/limit"),
        ("GET /v1/documents?status=lost", None, "/status"),
        ("GET /v1/jobs?document_id=1", None, "/document_id"),
        ("GET /v1/jobs/{job}?wait=61", None, "/wait"),
        ("GET /v1/jobs/{job}?wait=nan", None, "/wait"),
        ("GET /v1/documents/{document}/pages/one", None, "/number"),
        ("POST /v1/documents/{document}/jobs", {"kind": "brew"}, "/kind"),
        ("POST /v1/documents/{document}/jobs", {"kind": "ocr", "mode": "guess"}, "/mode"),
        ("POST /v1/documents/{document}/jobs", {"kind": "ocr", "language": "English"}, "/language"),
        ("POST /v1/documents/{document}/jobs", {"kind": "ocr", "a/b~c": 1}, "/a~1b~0c"),
        ("POST /v1/documents/{document}/jobs", {}, "/kind"),
    ],
)
async def test_a_422_points_at_the_faulty_part(web: Served, call: str, body: object, pointer: str) -> None:
    document = await web.uploaded()
    method, path = call.split()
    url = path.format(document=document["id"], job=document["jobs"][0]["id"])
    answer = problem(await web.client.request(method, url, json=body))
    assert (answer["status"], answer["code"]) == (422, "invalid")
    assert [fault["pointer"] for fault in answer["errors"]] == [pointer]
    assert answer["errors"][0]["detail"]


async def test_a_422_names_every_faulty_part(web: Served) -> None:
    body = problem(await web.client.get("/v1/documents?limit=0&status=lost"))
    assert {fault["pointer"] for fault in body["errors"]} == {"/limit", "/status"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"kind":' + b"9" * 5000 + b"}",
        b'{"kind": NaN}',
        b'{"kind": "ocr", "\\ud800": 1}',
        b'{"kind": "\\ud800"}',
        b'{"kind": "ocr", "language": "\\u0000"}',
        b"kind=ocr",
    ],
)
async def test_a_body_that_is_no_job_request_is_the_callers_fault(web: Served, body: bytes) -> None:
    document = await web.uploaded()
    answer = await web.client.post(
        f"/v1/documents/{document['id']}/jobs", content=body, headers={"Content-Type": "application/json"}
    )
    assert problem(answer)["code"] == "invalid"
    assert answer.status_code in {400, 422}


@pytest.mark.parametrize("given", ["a", "0", "mine-1_2.3", "x" * 64])
async def test_a_harmless_request_id_is_kept(web: Served, given: str) -> None:
    for path in ("/healthz", "/v1/jobs", "/v1/nothing"):
        assert (await web.client.get(path, headers={"X-Request-ID": given})).headers["X-Request-ID"] == given


@pytest.mark.threat(68)
@pytest.mark.parametrize(
    "given",
    [b"", b" ", b"x" * 65, b"a b", b"a\tb", b"<script>", b"a;b", b"%0d%0aSet-Cookie: a=b", b"\xc3\xa9", b"\xff"],
)
async def test_a_hostile_request_id_is_replaced(web: Served, given: bytes) -> None:
    answer = await web.client.get("/v1/nothing", headers={b"X-Request-ID": given})
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["X-Request-ID"])
    assert problem(answer)


async def test_requests_without_an_id_get_different_ones(web: Served) -> None:
    assert len({(await web.client.get("/healthz")).headers["X-Request-ID"] for _ in range(10)}) == 10


async def test_every_answer_forbids_guessing_its_type(web: Served) -> None:
    raising(web, RuntimeError("secret"))
    for path in ("/healthz", "/v1/nothing", "/v1/jobs"):
        assert (await web.client.get(path)).headers["X-Content-Type-Options"] == "nosniff"


async def test_a_text_that_is_not_there_yet_is_not_ready_and_one_that_never_will_be_a_conflict(web: Served) -> None:
    document = await web.uploaded()
    text = f"/v1/documents/{document['id']}/text"
    waiting = await web.client.get(text)
    assert (waiting.status_code, problem(waiting)["code"]) == (409, "not_ready")
    assert int(waiting.headers["Retry-After"]) >= 1
    await web.client.post(f"/v1/jobs/{document['jobs'][0]['id']}/cancel")
    never = await web.client.get(text)
    assert (never.status_code, problem(never)["code"]) == (409, "conflict")
    assert "Retry-After" not in never.headers


async def test_a_page_that_is_not_there_is_a_404_whatever_its_number(web: Served) -> None:
    document = await web.uploaded()
    await web.read(document)
    pages = f"/v1/documents/{document['id']}/pages"
    assert (await web.client.get(f"{pages}/1")).status_code == 200
    for number in (-1, 0, 2, 2**31 - 1, 2**31, 2**63, 10**30):
        answer = await web.client.get(f"{pages}/{number}")
        assert (answer.status_code, problem(answer)["code"]) == (404, "not_found")


@pytest.mark.threat(71)
async def test_no_metric_has_a_label_that_a_caller_chooses(web: Served) -> None:
    for path in ("/v1/nothing/secret", f"/v1/jobs/{uuid4()}"):
        await web.client.request("SECRET", path)
        await web.client.get(path)
    metrics = web.app.user_middleware[0].kwargs["metrics"]
    assert isinstance(metrics, Metrics)
    told = metrics.exposition().decode()
    assert 'route="/v1/jobs/{job_id}"' in told
    assert "secret" not in told.lower()


async def test_a_form_field_is_pointed_at_as_rfc_6901_writes_it(web: Served) -> None:
    jobs = json.dumps([{"kind": "ocr", "a/b~c": 1}])
    body = problem(await web.form(part("file", "%PDF-", filename="a") + part("jobs", jobs) + b"--x--\r\n"))
    assert [fault["pointer"] for fault in body["errors"]] == ["/jobs/0/a~1b~0c"]


def without_request_id(answer: httpx.Response) -> bytes:
    return answer.content.replace(answer.headers["X-Request-ID"].encode(), b"")
