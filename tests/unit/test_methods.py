"""What no route sees: methods that an address has not, and bodies that no parser gets through."""

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel

from app.asgi import create_app
from app.telemetry import Metrics
from app.web import errors
from app.web.request_log import RequestLog
from tests.unit.served import PROBLEM, Served, in_memory

AN_ID = "0199c0de-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/documents", "GET, POST"),
        (f"/v1/documents/{AN_ID}", "GET, DELETE"),
        (f"/v1/documents/{AN_ID}/content", "GET, HEAD"),
        (f"/v1/documents/{AN_ID}/jobs", "POST"),
        (f"/v1/jobs/{AN_ID}/cancel", "POST"),
        ("/healthz", "GET, HEAD"),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "QUERY"])
async def test_a_405_names_every_method_of_the_address(web: Served, path: str, allowed: str, method: str) -> None:
    answer = await web.client.request(method, path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
    assert (answer.headers["Content-Type"], answer.json()["code"]) == (PROBLEM, "method_not_allowed")
    assert answer.json()["detail"] == f"this address takes {allowed}"


@pytest.mark.parametrize("path", ["/v1/documents/", "/v1/events/", "/docs/", "/healthz/"])
async def test_nobody_is_sent_to_where_the_host_header_says(web: Served, path: str) -> None:
    answer = await web.client.get(path, headers={"Host": "evil.example"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, PROBLEM)
    assert "without the slash" in answer.json()["detail"]
    assert "Location" not in answer.headers


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("application/pdf", b"%PDF-1.4"), ("multipart/form-data; boundary=x", b"--x"), ("", b"")],
    ids=["no form", "a form without an end", "nothing"],
)
async def test_a_422_points_to_its_fault_also_where_that_is_the_whole(
    web: Served, content_type: str, body: bytes
) -> None:
    answer = await web.client.post("/v1/documents", content=body, headers={"Content-Type": content_type})
    assert (answer.status_code, [fault["pointer"] for fault in answer.json()["errors"]]) == (422, ["/"])


@pytest.mark.parametrize("body", [b"\xff", b" " * 1_000_000], ids=["not UTF-8", "too long"])
@pytest.mark.parametrize("path", ["/v1/webhooks", f"/v1/documents/{AN_ID}/jobs"])
async def test_a_body_that_is_no_form_is_not_called_a_field(web: Served, path: str, body: bytes) -> None:
    problem = (await web.client.post(path, content=body)).json()
    assert problem["detail"].startswith("the body ")
    assert [fault["pointer"] for fault in problem["errors"]] == ["/"]


async def test_a_time_whose_plus_became_a_blank_is_told_so(web: Served) -> None:
    answer = await web.client.get("/v1/documents?created_after=2026-11-30T09:00:00+01:00")
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "/created_after: a + is written %2B in an address: there it means a blank",
    )
    assert (await web.client.get("/v1/documents?created_after=2026-11-30T09:00:00%2B01:00")).status_code == 200


async def test_head_is_answered_where_the_document_says_so_and_nowhere_else(web: Served) -> None:
    """To answer it everywhere would do all the work of a GET, and wait, and stream, for a few headers."""
    document = await web.uploaded()
    for path in (f"/v1/documents/{document['id']}/content", "/healthz", "/readyz"):
        answer = await web.client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
    answer = await web.client.head(f"/v1/documents/{document['id']}")
    assert (answer.status_code, answer.headers["Allow"], answer.content) == (405, "GET, DELETE", b"")


def test_no_address_is_described_under_a_method_that_it_has_not() -> None:
    app = create_app(in_memory())
    for path, operations in app.openapi()["paths"].items():
        assert operations.keys() <= {"get", "head", "post", "delete"}, path


class Body(BaseModel):
    name: str


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b"\xff\xfe", b'{"name": "a', b"", b"nonsense", b'{"name": 1}'],
    ids=lambda body: str(body[:9]),
)
async def test_a_body_that_no_parser_gets_through_is_not_valid_like_any_other(body: bytes) -> None:
    app = FastAPI()
    app.state.debug = False
    errors.install(app)
    app.add_middleware(RequestLog, metrics=Metrics())

    @app.post("/things")
    async def make(thing: Body) -> Body:
        return thing

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://daira.test") as client:
        answer = await client.post("/things", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (422, PROBLEM)
    assert answer.json()["code"] == "invalid"


@pytest.mark.parametrize("moment", ["0.5", "1700000000", "2026-01-01", "tomorrow", "2026-01-01T00:00:00"])
async def test_a_time_is_one_of_rfc_3339(web: Served, moment: str) -> None:
    answer = await web.client.get("/v1/documents", params={"created_after": moment})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/created_after"


async def test_an_integer_may_be_written_as_json_schema_lets_it(web: Served) -> None:
    document = await web.uploaded()
    for words, status in ((150.0, 409), (150.5, 422), ("150", 422), (True, 422)):
        request = {"kind": "summarize", "max_words": words}
        assert (await web.client.post(f"/v1/documents/{document['id']}/jobs", json=request)).status_code == status
