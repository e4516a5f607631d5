"""The OpenAPI document leaves nothing out: of a new route, these tests name what it forgot."""

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.architecture.test_openapi import app_of, operations

SAYS_ITSELF = {"limit", "status", "state", "kind"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return app_of("web").openapi()


def test_every_operation_says_more_than_its_name(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        assert operation.get("description", "").endswith("."), f"{name}: its function needs a docstring"
        for parameter in operation.get("parameters", ()):
            plain = parameter["name"] in SAYS_ITSELF or parameter["name"].endswith("_id")
            assert plain or parameter.get("description"), f"{name}: {parameter['name']} needs a description"


def test_every_tag_is_described(document: dict[str, Any]) -> None:
    described = {tag["name"] for tag in document["tags"] if tag["description"]}
    used = {tag for operation in operations(document).values() for tag in operation["tags"]}
    assert used == described, "name it in app.web.openapi.texts.TAGS"


def test_every_answer_is_described_with_its_body_and_its_headers(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        for status, answer in operation["responses"].items():
            where = f"{name} {status}"
            assert answer["description"] not in {"", "Successful Response"}, where
            assert "X-Request-ID" in answer["headers"], where
            empty = status in {"204", "304"} or name.startswith("HEAD ")
            assert empty or answer["content"], where
            assert [kind for kind, content in answer.get("content", {}).items() if not content["schema"]] == [], where


def test_every_error_is_a_problem(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        for status, answer in operation["responses"].items():
            if status >= "4" and not name.endswith(" /readyz"):
                content = answer["content"]["application/problem+json"]
                assert content["schema"] == {"$ref": "#/components/schemas/Problem"}, f"{name} {status}"
    assert not {"HTTPValidationError", "ValidationError"} & document["components"]["schemas"].keys()


def test_every_operation_under_v1_can_refuse_whoever_asks(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        answers = operation["responses"]
        if "/v1" in name:
            assert answers.keys() >= {"401", "403", "429", "503"}, name
            assert "WWW-Authenticate" in answers["401"]["headers"]
            assert answers["429"]["headers"].keys() >= {"Retry-After", "RateLimit", "RateLimit-Policy"}
            assert "Retry-After" in answers["503"]["headers"]
            assert all("RateLimit" in answer["headers"] for status, answer in answers.items() if status < "3")
        assert ("404" in answers) == ("_id}" in name), name
        if "requestBody" in operation:
            assert answers.keys() >= {"408", "413", "422"}, name


def test_a_post_that_makes_something_says_where_it_is(document: dict[str, Any]) -> None:
    made = {name: operation for name, operation in operations(document).items() if name.startswith("POST ")}
    for name, operation in made.items():
        if {"201", "202"} & operation["responses"].keys():
            answers = [answer for status, answer in operation["responses"].items() if status < "3"]
            assert all("Location" in answer["headers"] for answer in answers), name


def test_every_body_that_is_sent_has_an_example(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            assert content.get("example") or content.get("examples"), f"{name} {kind}"


def test_no_parameter_can_be_null(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        for parameter in operation.get("parameters", ()):
            assert {"type": "null"} not in parameter["schema"].get("anyOf", []), f"{name}: {parameter['name']}"


def test_numbers_keep_their_bounds(document: dict[str, Any]) -> None:
    """A validator ahead of a bound hides it from the document."""
    words = document["components"]["schemas"]["SummarizeRequest"]["properties"]["max_words"]["anyOf"][0]
    assert (words["minimum"], words["maximum"]) == (10, 2_000)
    rotation = document["paths"]["/v1/webhooks/{webhook_id}/rotate"]["post"]["requestBody"]
    overlap = rotation["content"]["application/json"]["schema"]["properties"]["overlap_seconds"]
    assert overlap["minimum"] == 0


def test_links_lead_to_operations_and_their_parameters(document: dict[str, Any]) -> None:
    by_id = {operation["operationId"]: operation for operation in operations(document).values()}
    links = [
        link
        for operation in by_id.values()
        for answer in operation["responses"].values()
        for link in answer.get("links", {}).values()
    ]
    assert links
    for link in links:
        names = {parameter["name"] for parameter in by_id[link["operationId"]]["parameters"]}
        assert link["parameters"].keys() <= names


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for reference in references(document):
        part: Any = document
        for step in reference.removeprefix("#/").split("/"):
            part = part[step]


def test_examples_fit_their_schemas(document: dict[str, Any]) -> None:
    resource: Resource[Any] = DRAFT202012.create_resource(document)
    registry: Registry[Any] = Registry().with_resource("urn:daira", resource)
    for name, schema in document["components"]["schemas"].items():
        checked = Draft202012Validator({"$ref": f"urn:daira#/components/schemas/{name}"}, registry=registry)
        for example in schema.get("examples", ()):
            assert [error.message for error in checked.iter_errors(example)] == [], name
    assert document["components"]["schemas"]["Document"]["examples"]


def references(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for each in part:
            yield from references(each)
    elif isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for each in part.values():
            yield from references(each)
