"""A JSON Schema (draft 2020-12) taken apart: which of its parts are schemas themselves, and which apply where."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]
AnySchema = Schema | bool
"""True accepts everything, False nothing."""

SAME_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""Keywords whose schemas look at the very value that theirs looks at."""

SINGLE = frozenset({
    "not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "contentSchema",
})  # fmt: skip
LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})


@dataclass(frozen=True, slots=True)
class Part:
    pointer: tuple[str, ...]
    schema: Schema
    same_place: bool
    """It looks at the value that the schema around it looks at."""


def parts_of(schema: Schema, pointer: tuple[str, ...] = ()) -> Iterator[Part]:
    """The schemas directly inside."""
    for keyword, value in schema.items():
        found: Mapping[tuple[str, ...], object] = {}
        if keyword in SINGLE:
            found = {(): value}
        elif keyword in LISTED and isinstance(value, list):
            found = {(str(index),): each for index, each in enumerate(value)}
        elif keyword in NAMED and isinstance(value, Mapping):
            found = {(name,): each for name, each in value.items()}
        for rest, part in found.items():
            if isinstance(part, Mapping):
                yield Part((*pointer, keyword, *rest), part, keyword in SAME_PLACE)


def all_parts(schema: Schema) -> Iterator[Part]:
    """The schema itself, and all within it."""
    waiting = [Part((), schema, same_place=False)]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += parts_of(part.schema, part.pointer)


def rebuilt(schema: object, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A copy in which each schema is what `change` makes of it, from the inside out."""
    if not isinstance(schema, Mapping):
        return schema
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in SINGLE:
            copy[keyword] = rebuilt(value, change)
        elif keyword in LISTED and isinstance(value, list):
            copy[keyword] = [rebuilt(each, change) for each in value]
        elif keyword in NAMED and isinstance(value, Mapping):
            copy[keyword] = {name: rebuilt(each, change) for name, each in value.items()}
        else:
            copy[keyword] = value
    return change(copy)
