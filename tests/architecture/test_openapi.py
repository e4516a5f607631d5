"""The OpenAPI document describes what is served, and nothing is served that the outside contract does not name."""

from inspect import isasyncgenfunction, iscoroutinefunction
from re import fullmatch
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security.base import SecurityBase

from app.asgi import create_app
from app.settings import Settings

CONTRACT = {
    "GET /healthz",
    "HEAD /healthz",
    "GET /readyz",
    "HEAD /readyz",
    "GET /metrics",
    "POST /v1/documents",
    "GET /v1/documents",
    "GET /v1/documents/{}",
    "DELETE /v1/documents/{}",
    "GET /v1/documents/{}/content",
    "HEAD /v1/documents/{}/content",
    "GET /v1/documents/{}/text",
    "GET /v1/documents/{}/hocr",
    "GET /v1/documents/{}/alto",
    "GET /v1/documents/{}/markdown",
    "GET /v1/documents/{}/pages",
    "GET /v1/documents/{}/pages/{}",
    "GET /v1/documents/{}/pages/{}/image",
    "GET /v1/documents/{}/searchable.pdf",
    "POST /v1/documents/{}/jobs",
    "GET /v1/jobs",
    "GET /v1/jobs/{}",
    "POST /v1/jobs/{}/cancel",
    "POST /v1/jobs/{}/retry",
    "GET /v1/jobs/{}/events",
    "GET /v1/events",
    "GET /v1/search",
    "POST /v1/webhooks",
    "GET /v1/webhooks",
    "GET /v1/webhooks/{}",
    "DELETE /v1/webhooks/{}",
    "POST /v1/webhooks/{}/rotate",
    "POST /v1/webhooks/{}/enable",
    "POST /v1/webhooks/{}/test",
    "GET /v1/webhooks/{}/deliveries",
    "GET /v1/usage",
    "GET /v1/me",
}
"""The whole of it."""


def app_of(role: str) -> FastAPI:
    return create_app(Settings(_env_file=None, role=role, database_url="postgresql://db.test/daira"))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return app_of("web").openapi()


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def anonymous(operation: str) -> str:
    """Without the names of its path's parameters."""
    parts = ["{}" if part.startswith("{") else part for part in operation.split("/")]
    return "/".join(parts)


def test_every_route_that_is_served_is_described(document: dict[str, Any]) -> None:
    assert {anonymous(operation) for operation in operations(document)} == CONTRACT


def test_no_route_is_hidden_from_the_document(document: dict[str, Any]) -> None:
    routes = flat(app_of("web").routes)
    assert len(routes) >= len(CONTRACT)
    assert [route.path for route in routes if not route.include_in_schema] == []
    served = {f"{method} {route.path}" for route in routes for method in route.methods or ()}
    assert served == set(operations(document))


def test_every_operation_has_a_summary_and_a_tag(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        assert operation.get("summary") or operation.get("description"), name
        assert operation.get("tags"), name


def test_every_operation_has_an_id_of_its_own_that_reads_like_a_function(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for operation in operations(document).values()]
    assert len(set(ids)) == len(ids)
    assert [name for name in ids if not fullmatch(r"[a-z]+(_[a-z]+)+", name)] == []


def test_the_upload_form_is_described_with_its_file(document: dict[str, Any]) -> None:
    upload = document["paths"]["/v1/documents"]["post"]
    schema = upload["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert schema["required"] == ["file"]
    assert set(schema["properties"]) == {"file", "jobs", "metadata", "language"}


def test_the_document_is_about_this_program(document: dict[str, Any]) -> None:
    assert document["info"]["title"] == "Daira"
    assert document["info"]["description"]


def test_a_worker_serves_health_alone_and_no_document() -> None:
    worker = app_of("worker")
    health = {"GET /healthz", "HEAD /healthz", "GET /readyz", "HEAD /readyz", "GET /metrics"}
    assert set(operations(worker.openapi())) == health
    assert worker.openapi_url is None
    assert worker.docs_url is None


def test_nothing_that_a_request_needs_waits_for_a_thread() -> None:
    """A plain function, as a route or as what it depends on, is run in a thread: it doubled what a request costs."""
    plain = [
        f"{route.path}: {call}"
        for route in flat(app_of("web").routes)
        for call in calls(route.dependant)
        if not (iscoroutinefunction(call) or isasyncgenfunction(call) or isinstance(call, SecurityBase))
    ]
    assert plain == []


def calls(dependant: Dependant) -> list[Any]:
    return [dependant.call, *(call for needed in dependant.dependencies for call in calls(needed))]


def flat(routes: Any) -> list[APIRoute]:
    """All of our own: FastAPI keeps an included router whole."""
    found: list[APIRoute] = []
    for route in routes:
        if isinstance(route, APIRoute):
            found.append(route)
        elif hasattr(route, "original_router"):
            found += flat(route.original_router.routes)
    return found
