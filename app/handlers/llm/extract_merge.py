"""Merges the values from the parts of a document into one that fits the caller's schema, or says where it does not fit.

It also makes the schemas of the answers from the caller's: values and their sources, for a whole document or a part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jsonschema.exceptions import ValidationError

from app.domain.llm.merging import LocatedValue, MergedValue, escaped_pointer, merge
from app.handlers.llm.conversation import NoUsableAnswer
from app.handlers.llm.schema_checks import AnySchema, Schema, rebuild
from app.handlers.llm.schema_validation import SchemaValidator, TooMuchWorkError, hashable, schema_place


def joined_answer(found: Sequence[LocatedValue], schema: Schema) -> MergedValue:
    validator = SchemaValidator(schema)
    values = merge(found, same=hashable)
    sets = [_pointer(fault) for fault in _faults(values, validator) if fault.validator == "uniqueItems"]
    if sets:
        values = merge(found, sets=sets, same=hashable)
    if values.data is None and (blanks := _blanks(validator, schema)):
        values = replace(values, data=blanks[0])
    for fault in _faults(values, validator):
        if fault.validator == "required":
            _fill(fault, validator)
    if faults := _faults(values, validator):
        raise NoUsableAnswer(
            "llm_invalid_output",
            f"what was found in the document's {len(found)} parts does not fit the schema"
            f" at {schema_place(faults[0])[:300]}",
        )
    return values


def _faults(values: MergedValue, validator: SchemaValidator) -> list[ValidationError]:
    try:
        return list(validator.faults(values.data))
    except TooMuchWorkError:
        raise NoUsableAnswer(
            "llm_invalid_output", "the values take too long to be checked against the schema"
        ) from None


def _fill(fault: ValidationError, validator: SchemaValidator) -> None:
    """Fill in required values that were not found with an empty one that the schema accepts, if there is one."""
    for name in fault.validator_value:
        if name not in fault.instance:
            blanks = _blanks(validator, fault.schema.get("properties", {}).get(name, True))
            if blanks:
                fault.instance[name] = blanks[0]


def _blanks(validator: SchemaValidator, schema: AnySchema) -> list[object]:
    """Return the empty values that the schema accepts."""
    blanks: tuple[object, ...] = (None, [], {})
    return [blank for blank in blanks if validator.accepts(blank, schema)]


def _pointer(fault: ValidationError) -> str:
    return "".join(f"/{escaped_pointer(str(step))}" for step in fault.absolute_path)


SOURCES_SCHEMA: Mapping[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"pointer": {"type": "string"}, "page": {"type": "integer"}, "quote": {"type": "string"}},
        "required": ["pointer", "page", "quote"],
        "additionalProperties": False,
    },
}

REQUIREMENT_KEYWORDS = frozenset({
    "required", "minItems", "minProperties", "contains", "minContains", "maxContains", "dependentRequired",
    "uniqueItems", "not", "if", "then", "else",
})  # fmt: skip
"""Keywords that a part of a document need not satisfy, because the values may be on other pages."""

ROOT_KEYWORDS = frozenset({"$id", "$schema", "$vocabulary"})


def whole_schema(schema: Schema) -> dict[str, Any]:
    return _with_sources(schema, required=["data", "sources"])


def part_schema(schema: Schema) -> dict[str, Any]:
    """Return a relaxed schema for the answer about a part.

    The merged values are checked against the caller's schema.
    """
    return _with_sources(rebuild(schema, _relaxed), required=["sources"])


def _with_sources(schema: Schema, *, required: list[str]) -> dict[str, Any]:
    inner = rebuild(schema, _moved)
    # Definitions stay at the root, where servers that enforce schemas look for them.
    definitions = inner.pop("$defs", None)
    outer = {
        "type": "object",
        "properties": {"data": inner, "sources": SOURCES_SCHEMA},
        "required": required,
        "additionalProperties": False,
    }
    return outer if definitions is None else outer | {"$defs": definitions}


def _moved(schema: dict[str, Any]) -> dict[str, Any]:
    """Move references one level down with their targets, except those to definitions."""
    for keyword in ("$ref", "$dynamicRef"):
        reference = str(schema.get(keyword, ""))
        if reference == "#" or (reference.startswith("#/") and not reference.startswith("#/$defs/")):
            schema[keyword] = "#/properties/data" + reference[1:]
    return {keyword: value for keyword, value in schema.items() if keyword not in ROOT_KEYWORDS}


def _relaxed(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {keyword: value for keyword, value in schema.items() if keyword not in REQUIREMENT_KEYWORDS}
    # Without the required properties an answer may well fit two alternatives.
    if "oneOf" in kept and "anyOf" not in kept:
        kept["anyOf"] = kept.pop("oneOf")
    return kept
