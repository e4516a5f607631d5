"""Values from the parts of a document become one that fits the caller's schema, or the job fails and says where."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jsonschema.exceptions import ValidationError

from app.domain.llm.merging import LocatedValue, MergedValue, escaped, merged
from app.handlers.llm.conversation import Unanswerable
from app.handlers.llm.schema_checks import AnySchema, Schema, rebuilt
from app.handlers.llm.schema_validation import SchemaValidator, TooMuchWorkError, frozen, place


def joined(found: Sequence[LocatedValue], schema: Schema) -> MergedValue:
    fitting = SchemaValidator(schema)
    values = merged(found, same=frozen)
    sets = [_pointer(fault) for fault in _faults(values, fitting) if fault.validator == "uniqueItems"]
    if sets:
        values = merged(found, sets=sets, same=frozen)
    if values.data is None and (blanks := _blanks(fitting, schema)):
        values = replace(values, data=blanks[0])
    for fault in _faults(values, fitting):
        if fault.validator == "required":
            _fill(fault, fitting)
    if faults := _faults(values, fitting):
        raise Unanswerable(
            "llm_invalid_output",
            f"what was found in the document's {len(found)} parts does not fit the schema at {place(faults[0])[:300]}",
        )
    return values


def _faults(values: MergedValue, fitting: SchemaValidator) -> list[ValidationError]:
    try:
        return list(fitting.faults(values.data))
    except TooMuchWorkError:
        raise Unanswerable("llm_invalid_output", "the values take too long to be checked against the schema") from None


def _fill(fault: ValidationError, fitting: SchemaValidator) -> None:
    """Nothing was found of what is required: said so, where the schema has a way to say it."""
    for name in fault.validator_value:
        if name not in fault.instance:
            blanks = _blanks(fitting, fault.schema.get("properties", {}).get(name, True))
            if blanks:
                fault.instance[name] = blanks[0]


def _blanks(fitting: SchemaValidator, schema: AnySchema) -> list[object]:
    """What says that there is nothing, as far as the schema has it so."""
    blanks: tuple[object, ...] = (None, [], {})
    return [blank for blank in blanks if fitting.accepts(blank, schema)]


def _pointer(fault: ValidationError) -> str:
    return "".join(f"/{escaped(str(step))}" for step in fault.absolute_path)


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
