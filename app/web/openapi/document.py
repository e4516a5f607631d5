"""The OpenAPI document: FastAPI's, and what it does not know of a route: errors, headers, links, names.

Nothing of it is written at the routes that could be told from what they depend on: who depends on a caller may be
refused with 401, who has an id in its path with 404, who reads a body with 413; see `refuses`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from typing_extensions import override

from app.domain.errors import Invalid, NotFound, TooLarge
from app.web import job_results
from app.web.errors import PROBLEM, STATUS, Problem
from app.web.job_requests import KINDS
from app.web.openapi import examples
from app.web.openapi.headers import COMPONENTS, headers_of
from app.web.openapi.texts import EVENT, LINKS, SAID
from app.web.refusals import refusals

TOO_SLOW = (408, "request_timeout")
"""What `Pace` answers to a body that comes byte by byte."""


class DescribedApp(FastAPI):
    """An application whose document tells the whole of what it answers."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._described: list[APIRouter] = []

    @override
    def include_router(self, router: APIRouter, **given: Any) -> None:
        self._described.append(router)
        super().include_router(router, **given)

    @override
    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi(), self._described)
        return self.openapi_schema


def operation_id(route: APIRoute) -> str:
    """What a generated client's function is called."""
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
        if name in examples.OF_SCHEMAS:
            schema["examples"] = [examples.OF_SCHEMAS[name]]
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
        """What the schema that is answered says of itself."""
        for content in answer.get("content", {}).values():
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            said: str = self._schemas.get(name, {}).get("description", "")
            return said
        return ""

    def _refusals(self) -> dict[int, list[str]]:
        """Codes by their status."""
        errors = {error for call in _calls(self._route.dependant) for error in refusals(call)}
        body, parameters = self._operation.get("requestBody"), self._operation.get("parameters", ())
        if any(parameter["in"] == "path" for parameter in parameters):
            errors.add(NotFound)
        if body or any(_can_be_wrong(parameter) for parameter in parameters):
            errors.add(Invalid)
        told = {(STATUS[error], error.code) for error in errors}
        if body:
            told |= {TOO_SLOW, (STATUS[TooLarge], TooLarge.code)}
        return {status: sorted(code for at, code in told if at == status) for status in {at for at, _ in told}}


def _calls(dependant: Dependant) -> Iterator[Callable[..., Any] | None]:
    yield dependant.call
    for each in dependant.dependencies:
        yield from _calls(each)


def _can_be_wrong(parameter: dict[str, Any]) -> bool:
    """An id that is none is answered like an unknown one, and a range or a tag that can't be read is passed over."""
    schema = parameter["schema"]
    match parameter["in"]:
        case "path":
            return bool(schema["type"] != "string")
        case "header":
            return "pattern" in schema or schema["type"] != "string"
        case _:
            return True


def _refusal(codes: list[str]) -> dict[str, Any]:
    said = " ".join(f"`{code}`: {SAID[code]}" for code in codes)
    shown = {code: {"value": examples.problem(code)} for code in codes}
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": shown}
    return {"description": said, "content": {PROBLEM: content}}


def _drop_null(schema: dict[str, Any]) -> None:
    """A parameter that may be left out is not one that may be null: there is no null in a query."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del schema["anyOf"]
        schema |= kinds[0]


def _drop_items(content: dict[str, Any]) -> None:
    """OpenAPI 3.1 has no word for the parts of a stream: an event is described in the place of the whole."""
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
    """`DocumentBody` is our word; a client's is `Document`."""
    if isinstance(part, list):
        return [_renamed(each) for each in part]
    if not isinstance(part, dict):
        return part
    new = {name: _renamed(value) for name, value in part.items()}
    if isinstance(new.get("$ref"), str):
        new["$ref"] = new["$ref"].removesuffix("Body")
    if isinstance(new.get("schemas"), dict):
        short = {name.removesuffix("Body"): schema for name, schema in new["schemas"].items()}
        # Generators call a class by the title.
        new["schemas"] = {name: schema | {"title": name} for name, schema in short.items()}
    return new
