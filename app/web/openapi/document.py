"""The OpenAPI document: FastAPI's, with the errors, headers, links and names that it does not know.

Errors are derived from a route's dependencies wherever possible: a route with a caller may answer 401, one with an id
in its path 404, one that reads a body 413. See `refuses`.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from typing_extensions import override

from app.domain.errors import Invalid, NotFound, TooLarge
from app.web import job_results
from app.web.errors import PROBLEM, STATUS, Problem
from app.web.job_requests import KINDS
from app.web.openapi import examples
from app.web.openapi.headers import COMPONENTS, headers_of
from app.web.openapi.texts import EVENT, LINKS, REFUSAL_TEXTS
from app.web.refusals import refusals

TOO_SLOW = (408, "request_timeout")
"""The answer of `SlowBodyGuard` to a body that arrives too slowly."""


class DescribedApp(FastAPI):
    """An application whose OpenAPI document describes all its answers."""

    def __init__(self, **given: Any) -> None:
        self._described: list[APIRouter] = []
        self._written: bytes | None = None
        super().__init__(**given)

    @override
    def include_router(self, router: APIRouter, **given: Any) -> None:
        self._described.append(router)
        super().include_router(router, **given)

    @override
    def setup(self) -> None:
        """Serve the document as bytes that are made once: making it takes a second, and writing it as JSON a while."""
        if self.openapi_url:
            self.add_route(self.openapi_url, self._answer, include_in_schema=False)

    async def _answer(self, _request: Request) -> Response:
        if self._written is None:
            # In a thread, so that the first one to ask does not keep all others waiting.
            self._written = await asyncio.to_thread(lambda: json.dumps(self.openapi()).encode())
        return Response(self._written, media_type="application/json")

    @override
    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi(), self._described)
        return self.openapi_schema


def operation_id(route: APIRoute) -> str:
    """Return the name of the function in a generated client."""
    return route.name


def _completed(document: dict[str, Any], routers: Sequence[APIRouter]) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    for model in (Problem, *KINDS, *_parts_of(job_results.AnyResult)):
        _add(schemas, model.model_json_schema(ref_template="#/components/schemas/{model}"), name=model.__name__)
    for route, operation in _operations(document, routers):
        _Operation(route, operation, schemas).complete()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for name, schema in schemas.items():
        if name in examples.SCHEMA_EXAMPLES:
            schema["examples"] = [examples.SCHEMA_EXAMPLES[name]]
    document["components"]["headers"] = COMPONENTS
    document["servers"] = [{"url": "/", "description": "Where this document was read."}]
    renamed: dict[str, Any] = _renamed(document)
    return renamed


def _operations(document: dict[str, Any], routers: Sequence[APIRouter]) -> Iterator[tuple[APIRoute, dict[str, Any]]]:
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.path_format in document["paths"]:
                for method in route.methods or ():
                    yield route, document["paths"][route.path_format][method.lower()]


class _Operation:
    def __init__(self, route: APIRoute, operation: dict[str, Any], schemas: dict[str, Any]) -> None:
        self._route = route
        self._operation = operation
        self._schemas = schemas
        self._answers: dict[str, Any] = operation["responses"]

    def complete(self) -> None:
        if self._answers.get("422", {}).get("description") == "Validation Error":
            del self._answers["422"]
        for parameter in self._operation.get("parameters", ()):
            _drop_null(parameter["schema"])
        self._name()
        for code, codes in self._refusals().items():
            self._answers[str(code)] = _refusal(codes)
        for status in sorted(self._answers):
            answer = self._answers[status] = self._answers.pop(status)
            _drop_items(answer.get("content", {}))
            answer["headers"] = headers_of(self._operation, status=int(status)) | answer.get("headers", {})
            if links := LINKS.get(self._route.name, {}) if status.startswith("2") else {}:
                answer["links"] = {name: {"operationId": name, "parameters": given} for name, given in links.items()}

    def _name(self) -> None:
        self._operation["summary"] = self._operation["summary"].capitalize()
        for answer in self._answers.values():
            if answer["description"] == "Successful Response":
                answer["description"] = self._shown(answer) or self._operation["summary"] + "."

    def _shown(self, answer: dict[str, Any]) -> str:
        """Return the description of the answer's schema."""
        for content in answer.get("content", {}).values():
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            said: str = self._schemas.get(name, {}).get("description", "")
            return said
        return ""

    def _refusals(self) -> dict[int, list[str]]:
        """Return the codes of all errors by their status."""
        errors = {error for call in _calls(self._route.dependant) for error in refusals(call)}
        body, parameters = self._operation.get("requestBody"), self._operation.get("parameters", ())
        if any(parameter["in"] == "path" for parameter in parameters):
            errors.add(NotFound)
        if body or any(_can_be_wrong(parameter) for parameter in parameters):
            errors.add(Invalid)
        listed = {(STATUS[error], error.code) for error in errors}
        if body:
            listed |= {TOO_SLOW, (STATUS[TooLarge], TooLarge.code)}
        return {status: sorted(code for at, code in listed if at == status) for status in {at for at, _ in listed}}


def _calls(dependant: Dependant) -> Iterator[Callable[..., Any] | None]:
    yield dependant.call
    for each in dependant.dependencies:
        yield from _calls(each)


def _can_be_wrong(parameter: dict[str, Any]) -> bool:
    """Return True if a bad value is answered with 422. A bad id gets 404; a bad range or tag is ignored."""
    schema = parameter["schema"]
    match parameter["in"]:
        case "path":
            return bool(schema["type"] != "string")
        case "header":
            return "pattern" in schema or schema["type"] != "string"
        case _:
            return True


def _refusal(codes: list[str]) -> dict[str, Any]:
    said = " ".join(f"`{code}`: {REFUSAL_TEXTS[code]}" for code in codes)
    shown = {code: {"value": examples.problem(code)} for code in codes}
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": shown}
    return {"description": said, "content": {PROBLEM: content}}


def _drop_null(schema: dict[str, Any]) -> None:
    """Drop null from the types of a parameter that may be left out, because a query has no null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del schema["anyOf"]
        schema |= kinds[0]


def _drop_items(content: dict[str, Any]) -> None:
    """Describe one event in place of the whole stream, because OpenAPI 3.1 can't describe the parts of a stream."""
    for described in content.values():
        if described.pop("itemSchema", None) is not None:
            described["schema"] = EVENT


def _add(schemas: dict[str, Any], schema: dict[str, Any], *, name: str) -> None:
    for part, definition in schema.pop("$defs", {}).items():
        schemas.setdefault(part, definition)
    schemas.setdefault(name, schema)


def _parts_of(union: Any) -> tuple[Any, ...]:
    parts: tuple[Any, ...] = union.__args__
    return parts


def _renamed(part: Any) -> Any:
    """Rename the schemas for clients: `DocumentBody` becomes `Document`."""
    if isinstance(part, list):
        return [_renamed(each) for each in part]
    if not isinstance(part, dict):
        return part
    new = {name: _renamed(value) for name, value in part.items()}
    if isinstance(new.get("$ref"), str):
        new["$ref"] = new["$ref"].removesuffix("Body")
    if isinstance(new.get("schemas"), dict):
        short = {name.removesuffix("Body"): schema for name, schema in new["schemas"].items()}
        # Generators name a class by its title.
        new["schemas"] = {name: schema | {"title": name} for name, schema in short.items()}
    return new
