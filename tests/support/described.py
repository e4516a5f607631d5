"""Whether an answer is one that the OpenAPI document tells of."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from fastapi import FastAPI
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

ELSEWHERE = {400, 404, 405, 408, 499, 500}
"""What is answered beside any operation: no such address or method, a connection gone bad, a fault of ours."""


class Descriptions:
    def __init__(self, app: FastAPI) -> None:
        document = app.openapi()
        registry: Registry[Any] = Registry().with_resource("urn:daira", DRAFT202012.create_resource(document))
        self._registry = registry
        self._operations = [
            (re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))), operations)
            for path, operations in document["paths"].items()
        ]

    def faults(self, answer: httpx.Response) -> list[str]:
        """What of the answer, whose body has been read, is not as described."""
        operation = self._operation(answer.request)
        if operation is None:
            return []
        where = f"{answer.request.method} {answer.request.url.path} {answer.status_code}"
        told = operation["responses"].get(str(answer.status_code))
        if told is None:
            return [] if answer.status_code in ELSEWHERE else [f"{where} is not described"]
        missing = [name for name, header in told["headers"].items() if self._needed(header)]
        faults = [f"{where} has no {name}" for name in missing if name not in answer.headers]
        if answer.request.method != "HEAD" and answer.content:
            faults += [f"{where}: {fault}" for fault in self._body(answer, told.get("content", {}))]
        return faults

    def _operation(self, request: httpx.Request) -> Mapping[str, Any] | None:
        for pattern, operations in self._operations:
            if pattern.fullmatch(request.url.path):
                operation: Mapping[str, Any] | None = operations.get(request.method.lower())
                return operation
        return None

    def _needed(self, header: Mapping[str, Any]) -> bool:
        pointer = header["$ref"]
        resolved = self._registry.resolver("urn:daira").lookup(pointer).contents
        return bool(resolved.get("required"))

    def _body(self, answer: httpx.Response, content: Mapping[str, Any]) -> list[str]:
        kind = answer.headers["Content-Type"].partition(";")[0]
        if kind not in content:
            return [] if "*/*" in content else [f"a body of the type {kind}"]
        schema = content[kind]["schema"]
        if not kind.endswith("json"):
            return []
        rooted = _rooted(schema)
        errors = Draft202012Validator(rooted, registry=self._registry).iter_errors(answer.json())
        return [f"{error.json_path}: {error.message}"[:300] for error in errors]


def held_to(descriptions: Descriptions) -> Callable[[httpx.Response], Any]:
    """For a client's `event_hooks`: each answer is as described."""

    async def hold(answer: httpx.Response) -> None:
        if answer.headers.get("Content-Type", "").startswith("text/event-stream"):
            return  # it may have no end
        await answer.aread()
        assert descriptions.faults(answer) == []

    return hold


def _rooted(schema: Any) -> Any:
    """References from the document's root."""
    if isinstance(schema, list):
        return [_rooted(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    new = {name: _rooted(value) for name, value in schema.items()}
    if isinstance(new.get("$ref"), str) and new["$ref"].startswith("#"):
        new["$ref"] = "urn:daira" + new["$ref"]
    return new
