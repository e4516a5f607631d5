"""The operations of an OpenAPI document, and requests made of what it says: which parts name something of anybody's."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from typing_extensions import override

PLAIN: dict[str, tuple[object, ...]] = {
    "number": (1, 7),
    "limit": (1, 100),
    "wait": (0,),
    "status": (None, "ready"),
    "state": (None, "queued"),
    "kind": (None, "ocr"),
    "created_after": (None,),
    "created_before": (None,),
    "jobs": ('[{"kind": "ocr"}]',),
    "metadata": ("{}",),
    "language": ("eng",),
    "mode": ("auto",),
    "pages": ("1-3",),
    "width": (None, 16),
    "Idempotency-Key": (None,),
    "Range": ("bytes=0-3", "bytes=9999999-"),
    "If-Range": ('"nothing"',),
    "If-None-Match": ('"nothing"',),
    "Prefer": ("wait=0",),
    "Last-Event-ID": ("nothing",),
    "schema": ({},),
    "instructions": ("Be exact.",),
    "labels": (["invoice", "other"],),
    "multiple": (True,),
    "question": ("Why?",),
    "max_words": (100,),
    "q": ("dear",),
    "url": ("https://[2606:4700::1]/hooks",),
    "events": (["job.done"],),
    "description": ("a test",),
    "overlap_seconds": (0, 60),
    "from": (None, "2026-01-01"),
    "to": (None, "2026-01-31"),
}
"""Parameters that name nothing of anybody's, with values to try; None leaves it out."""

HTTP_METHODS = ("get", "put", "post", "patch", "delete", "head", "options", "trace")


@dataclass(frozen=True, kw_only=True)
class Operation:
    method: str
    path: str
    places: Mapping[str, str]
    """Where each parameter goes: path, query, header, form or json."""
    fixed: Mapping[str, object]
    """What tells this way to ask from others at the same address."""

    @override
    def __str__(self) -> str:
        return " ".join([self.method.upper(), self.path, *map(str, self.fixed.values())])

    @property
    def named(self) -> dict[str, str]:
        """Parameters that name something of a tenant's, with the name of the fixtures that they ask for."""
        return {name: self._furniture(name) for name in self.places if name not in PLAIN}

    def ways_to_name(self) -> list[dict[str, str]]:
        """What its path names, and each other parameter on top of that; nothing, where it names nothing."""
        path = {name: of for name, of in self.named.items() if self.places[name] == "path"}
        others = [{name: of} for name, of in self.named.items() if self.places[name] != "path"]
        return ([path] if path or not others else []) + [path | other for other in others]

    def _furniture(self, name: str) -> str:
        listing = self.path.rsplit("/", 1)[-1]
        return f"{listing} cursor" if name == "cursor" else name

    def requests(self, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Arguments of a client's `request`, with `given` parameters and each choice of the plain ones."""
        plain = [name for name in self.places if name in PLAIN]
        for chosen in product(*(self._choices(name) for name in plain)):
            yield self._request(dict(given) | dict(zip(plain, chosen, strict=True)))

    def _choices(self, name: str) -> tuple[object, ...]:
        if name in self.fixed:
            return (self.fixed[name],)
        left_out = self.places[name] in {"query", "header"}
        return tuple(value for value in PLAIN[name] if left_out or value is not None)

    def _request(self, values: Mapping[str, Any]) -> dict[str, Any]:
        by_place: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            if value is not None:
                by_place.setdefault(self.places[name], {})[name] = value
        form = by_place.get("form", {})
        files = {name: ("a.pdf", value) for name, value in form.items() if isinstance(value, bytes)}
        return {
            "method": self.method,
            "url": self.path.format(**by_place.get("path", {})),
            "params": by_place.get("query"),
            "headers": {name: str(value) for name, value in by_place.get("header", {}).items()},
            "files": files or None,
            "data": {name: value for name, value in form.items() if name not in files} or None,
            "json": by_place.get("json"),
        }


def operations(document: dict[str, Any]) -> list[Operation]:
    return [
        Operation(method=method, path=path, places=_parameters(item, operation) | places, fixed=fixed)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in HTTP_METHODS
        for places, fixed in _bodies(operation, document)
    ]


def _parameters(item: dict[str, Any], operation: dict[str, Any]) -> dict[str, str]:
    parameters = [*item.get("parameters", []), *operation.get("parameters", [])]
    return {parameter["name"]: parameter["in"] for parameter in parameters}


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = document["components"]["schemas"][name] if name else schema
    return found


def _bodies(operation: dict[str, Any], document: dict[str, Any]) -> Iterator[tuple[dict[str, str], dict[str, object]]]:
    """Each kind of body: the places of its parameters, and those that are always the same."""
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        yield {}, {}
    for media_type, body in content.items():
        place = "form" if media_type.startswith("multipart/") else "json"
        for kind in body["schema"].get("oneOf", [body["schema"]]):
            parts = _resolved(kind, document).get("properties", {})
            yield dict.fromkeys(parts, place), {name: part["const"] for name, part in parts.items() if "const" in part}
