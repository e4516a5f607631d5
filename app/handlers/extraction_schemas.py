"""The schemas of an extraction's answers, made from the caller's: values and their sources, of a document or a part."""

from collections.abc import Mapping
from typing import Any

from app.handlers.schema_parts import Schema, rebuilt

SOURCES: Mapping[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"pointer": {"type": "string"}, "page": {"type": "integer"}, "quote": {"type": "string"}},
        "required": ["pointer", "page", "quote"],
        "additionalProperties": False,
    },
}

DEMANDS = frozenset({
    "required", "minItems", "minProperties", "contains", "minContains", "maxContains", "dependentRequired",
    "uniqueItems", "not", "if", "then", "else",
})  # fmt: skip
"""Keywords that a part of a document need not satisfy: what is asked for may stand on other pages."""

OF_ANSWERS = frozenset({"$id", "$schema", "$vocabulary"})


def of_the_whole(schema: Schema) -> dict[str, Any]:
    return _with_sources(schema, required=["data", "sources"])


def of_a_part(schema: Schema) -> dict[str, Any]:
    """More is accepted of a part: together they are held against the caller's schema."""
    return _with_sources(rebuilt(schema, _relaxed), required=["sources"])


def _with_sources(schema: Schema, *, required: list[str]) -> dict[str, Any]:
    inner = rebuilt(schema, _moved)
    # They stay at the root, where servers that enforce schemas look for them.
    definitions = inner.pop("$defs", None)
    outer = {
        "type": "object",
        "properties": {"data": inner, "sources": SOURCES},
        "required": required,
        "additionalProperties": False,
    }
    return outer if definitions is None else outer | {"$defs": definitions}


def _moved(schema: dict[str, Any]) -> dict[str, Any]:
    """References follow what they lead to: one level down, but for those to definitions."""
    for keyword in ("$ref", "$dynamicRef"):
        reference = str(schema.get(keyword, ""))
        if reference == "#" or (reference.startswith("#/") and not reference.startswith("#/$defs/")):
            schema[keyword] = "#/properties/data" + reference[1:]
    return {keyword: value for keyword, value in schema.items() if keyword not in OF_ANSWERS}


def _relaxed(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {keyword: value for keyword, value in schema.items() if keyword not in DEMANDS}
    # Without what was required, an answer may well fit two of them.
    if "oneOf" in kept and "anyOf" not in kept:
        kept["anyOf"] = kept.pop("oneOf")
    return kept
