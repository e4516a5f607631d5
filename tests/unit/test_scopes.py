"""What a key may ask for: every route needs a scope, and who lacks it learns nothing but that."""

from typing import Any

import pytest
from fastapi.routing import APIRoute

from app.asgi import create_app
from app.domain.ids import uuid7
from app.domain.keys import EVERYDAY, Scope
from tests.architecture.test_openapi import flat
from tests.unit.served import ACME, Served, in_memory, the_app

READ, WRITE, JOBS, ADMIN = Scope.DOCUMENTS_READ, Scope.DOCUMENTS_WRITE, Scope.JOBS_WRITE, Scope.ADMIN
WEBHOOKS = Scope.WEBHOOKS_WRITE

NEEDS: dict[str, Scope] = {
    "POST /v1/documents": WRITE,
    "GET /v1/documents": READ,
    "GET /v1/documents/{document_id}": READ,
    "DELETE /v1/documents/{document_id}": WRITE,
    "GET /v1/documents/{document_id}/content": READ,
    "HEAD /v1/documents/{document_id}/content": READ,
    "GET /v1/documents/{document_id}/text": READ,
    "GET /v1/documents/{document_id}/hocr": READ,
    "GET /v1/documents/{document_id}/alto": READ,
    "GET /v1/documents/{document_id}/markdown": READ,
    "GET /v1/documents/{document_id}/searchable.pdf": READ,
    "GET /v1/documents/{document_id}/pages": READ,
    "GET /v1/documents/{document_id}/pages/{number}": READ,
    "GET /v1/documents/{document_id}/pages/{number}/image": READ,
    "POST /v1/documents/{document_id}/jobs": JOBS,
    "GET /v1/jobs": READ,
    "GET /v1/jobs/{job_id}": READ,
    "GET /v1/jobs/{job_id}/events": READ,
    "GET /v1/events": READ,
    "POST /v1/jobs/{job_id}/cancel": JOBS,
    "GET /v1/search": READ,
    "POST /v1/jobs/{job_id}/retry": JOBS,
    "POST /v1/webhooks": WEBHOOKS,
    "GET /v1/webhooks": READ,
    "GET /v1/webhooks/{webhook_id}": READ,
    "DELETE /v1/webhooks/{webhook_id}": WEBHOOKS,
    "POST /v1/webhooks/{webhook_id}/rotate": WEBHOOKS,
    "POST /v1/webhooks/{webhook_id}/enable": WEBHOOKS,
    "POST /v1/webhooks/{webhook_id}/test": WEBHOOKS,
    "GET /v1/webhooks/{webhook_id}/deliveries": READ,
    "GET /v1/usage": READ,
}
ANY_SCOPE_WILL_DO = "GET /v1/me"

NEUTRAL = {"status", "title", "type", "code", "detail"}


def routes() -> dict[str, APIRoute]:
    served = flat(create_app(in_memory()).routes)
    return {f"{method} {route.path}": route for route in served for method in route.methods or ()}


ROUTES = {name: route for name, route in routes().items() if route.path.startswith("/v1")}


async def header(web: Served, *scopes: Scope) -> dict[str, str]:
    key = await web.runtime.tenants.issue_key(ACME, name="narrow", scopes=frozenset(scopes))
    return {"Authorization": f"Bearer {key}"}


async def ask(web: Served, name: str, identity: object, **options: Any) -> tuple[int, dict[str, Any]]:
    method, path = name.split()
    path = path.replace("{number}", "1")
    for parameter in ("{document_id}", "{job_id}", "{webhook_id}"):
        path = path.replace(parameter, str(identity))
    answer = await web.client.request(method, path, **options)
    told = "json" in answer.headers.get("Content-Type", "") and answer.content
    body: dict[str, Any] = answer.json() if told else {}
    return answer.status_code, {name: value for name, value in body.items() if name in NEUTRAL}


def test_every_route_under_v1_is_in_the_table_of_what_it_needs() -> None:
    assert set(ROUTES) == set(NEEDS) | {ANY_SCOPE_WILL_DO}


def test_reading_needs_to_read_and_changing_needs_to_write() -> None:
    for name, scope in NEEDS.items():
        assert (scope is READ) == name.startswith(("GET ", "HEAD ")), name


@pytest.mark.parametrize("name", NEEDS)
async def test_a_route_refuses_every_scope_but_its_own_and_names_it(web: Served, name: str) -> None:
    others = [scope for scope in Scope if scope not in {NEEDS[name], ADMIN}]
    status, body = await ask(web, name, uuid7(), headers=await header(web, *others))
    assert status == 403
    if name.startswith("HEAD "):
        return
    assert body["code"] == "forbidden"
    assert NEEDS[name] in body["detail"]
    assert not any(scope in body["detail"] for scope in others)


@pytest.mark.parametrize("name", NEEDS)
@pytest.mark.parametrize("admin", [False, True])
async def test_a_route_lets_its_own_scope_in_and_admin(web: Served, name: str, *, admin: bool) -> None:
    status, _ = await ask(web, name, uuid7(), headers=await header(web, ADMIN if admin else NEEDS[name]))
    assert status in {200, 404, 422}


@pytest.mark.threat(45)
@pytest.mark.parametrize("name", [name for name in NEEDS if "_id}" in name])
async def test_who_lacks_the_scope_never_learns_whether_an_id_exists(web: Served, name: str) -> None:
    document = await web.uploaded()
    mine = document["jobs"][0]["id"] if "{job_id}" in name else document["id"]
    others = await header(web, *(scope for scope in Scope if scope not in {NEEDS[name], ADMIN}))
    answers = [await ask(web, name, identity, headers=others) for identity in (mine, uuid7(), "nonsense")]
    assert answers[0][0] == 403
    assert answers.count(answers[0]) == 3


async def test_an_upload_without_the_scope_is_refused_before_a_byte_is_read_or_stored(web: Served) -> None:
    read = False

    async def body() -> Any:
        nonlocal read
        read = True
        yield b"--x"

    headers = await header(web, READ, JOBS) | {"Content-Type": "multipart/form-data; boundary=x"}
    answer = await web.client.post("/v1/documents", content=body(), headers=headers)
    assert answer.status_code == 403
    assert not read
    assert web.blobs == []


@pytest.mark.parametrize("name", NEEDS)
def test_the_openapi_document_names_the_scope(name: str) -> None:
    method, path = name.split()
    document = the_app().openapi()
    assert document["paths"][path][method.lower()]["security"] == [{"key": [NEEDS[name]]}]
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"


@pytest.mark.parametrize("scope", Scope)
async def test_who_am_i_is_answered_to_any_scope(web: Served, scope: Scope) -> None:
    answer = await web.client.get("/v1/me", headers=await header(web, scope))
    assert answer.json() == {
        "tenant": "acme",
        "key": "narrow",
        "scopes": [scope],
        "limits": {
            "max_running": None,
            "max_queued": 10_000,
            "max_upload_bytes": 100 * 1024 * 1024,
            "requests_per_minute": 100_000,
        },
    }


async def test_who_am_i_tells_the_tenants_own_limits(web: Served) -> None:
    await web.runtime.tenants.limit(ACME, {"max_queued": 7, "max_running": 2})
    limits = (await web.client.get("/v1/me")).json()["limits"]
    assert (limits["max_queued"], limits["max_running"], limits["requests_per_minute"]) == (7, 2, 100_000)


async def test_who_am_i_is_told_to_nobody_without_a_key(web: Served) -> None:
    del web.client.headers["Authorization"]
    assert (await web.client.get("/v1/me")).status_code == 401


async def test_a_key_made_without_saying_more_can_do_the_everyday_and_does_not_administer(web: Served) -> None:
    key = await web.runtime.tenants.issue_key(ACME, name="plain")
    caller = await web.runtime.tenants.authenticate(key)
    assert caller.scopes == EVERYDAY == set(Scope) - {ADMIN}
    assert not caller.may(ADMIN)
