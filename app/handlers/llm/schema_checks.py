"""Checks a caller's JSON Schema when the job is requested, before a model is paid for an answer.

The schema is untrusted: its size and depth are limited, its references must stay inside, and its patterns must take
linear time. This module also takes a schema (draft 2020-12) apart into its sub-schemas, and finds those that apply to
the same value.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote

import re2
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

Schema = Mapping[str, Any]
AnySchema = Schema | bool
"""True accepts everything, False nothing."""

SAME_PLACE_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""Keywords whose schemas apply to the same value as the schema that has them."""

SINGLE_KEYWORDS = frozenset({
    "not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "contentSchema",
})  # fmt: skip
LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
NAMED_KEYWORDS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})


@dataclass(frozen=True, slots=True)
class SchemaPart:
    pointer: tuple[str, ...]
    schema: Schema
    same_place: bool
    """True if it applies to the same value as the schema around it."""


def parts_of(schema: Schema, pointer: tuple[str, ...] = ()) -> Iterator[SchemaPart]:
    """Yield the schemas directly inside."""
    for keyword, value in schema.items():
        found: Mapping[tuple[str, ...], object] = {}
        if keyword in SINGLE_KEYWORDS:
            found = {(): value}
        elif keyword in LIST_KEYWORDS and isinstance(value, list):
            found = {(str(index),): each for index, each in enumerate(value)}
        elif keyword in NAMED_KEYWORDS and isinstance(value, Mapping):
            found = {(name,): each for name, each in value.items()}
        for rest, part in found.items():
            if isinstance(part, Mapping):
                yield SchemaPart((*pointer, keyword, *rest), part, keyword in SAME_PLACE_KEYWORDS)


def all_parts(schema: Schema) -> Iterator[SchemaPart]:
    """Yield the schema itself, and all schemas within it."""
    waiting = [SchemaPart((), schema, same_place=False)]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += parts_of(part.schema, part.pointer)


def rebuild(schema: object, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a copy in which `change` has replaced each schema, from the inside out."""
    if not isinstance(schema, Mapping):
        return schema
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in SINGLE_KEYWORDS:
            copy[keyword] = rebuild(value, change)
        elif keyword in LIST_KEYWORDS and isinstance(value, list):
            copy[keyword] = [rebuild(each, change) for each in value]
        elif keyword in NAMED_KEYWORDS and isinstance(value, Mapping):
            copy[keyword] = {name: rebuild(each, change) for name, each in value.items()}
        else:
            copy[keyword] = value
    return change(copy)


MOST_BYTES = 64 * 1024
DEEPEST = 40
MOST_PARTS = 500
MOST_AT_ONE_PLACE = 200
"""The most schemas that apply to one value, references followed. Each reference may double them."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ROOT_ONLY_KEYWORDS = ("$id", "$schema", "$vocabulary")
REFERENCE_KEYWORDS = ("$ref", "$dynamicRef")


class SchemaFault(ValueError):
    def __init__(self, message: str, *pointer: object) -> None:
        super().__init__(message)
        self.pointer = tuple(map(str, pointer))
        """The path of the faulty part, from the schema's root."""


def check_schema(schema: Schema) -> None:
    """Raises SchemaFault, with the path of the faulty part."""
    _check_size(schema)
    if schema.get("$schema", DIALECT) not in {DIALECT, f"{DIALECT}#"}:
        raise SchemaFault(f"only draft 2020-12 is supported: {DIALECT}", "$schema")
    if fault := best_match(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)):
        raise SchemaFault(f"not a JSON Schema: {fault.message[:200]}", *fault.absolute_path)
    parts = {part.pointer: part for part in all_parts(schema)}
    if len(parts) > MOST_PARTS:
        raise SchemaFault(f"it has more than {MOST_PARTS:,} schemas in it")
    for part in parts.values():
        _check_part(part)
    _check_references(parts)


def compile_pattern(pattern: str) -> "re2._Regexp":
    """Compile by RE2, which takes linear time for any pattern. So it has no look-around and no back-references."""
    return re2.compile(pattern, options=_options())


@cache
def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    return options


def _check_size(schema: Schema) -> None:
    if len(json.dumps(schema, ensure_ascii=False).encode()) > MOST_BYTES:
        raise SchemaFault(f"it has more than {MOST_BYTES:,} bytes")
    if not _fits(schema, DEEPEST):
        raise SchemaFault(f"it is nested more than {DEEPEST} levels deep")


def _fits(value: object, levels: int) -> bool:
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels > 0 and all(_fits(part, levels - 1) for part in parts)


def _check_part(part: SchemaPart) -> None:
    for keyword in ROOT_ONLY_KEYWORDS:
        if part.pointer and keyword in part.schema:
            raise SchemaFault(f"{keyword} is only allowed at the root", *part.pointer, keyword)
    for pointer, pattern in _patterns(part):
        try:
            compile_pattern(pattern)
        except re2.error as error:
            reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
            raise SchemaFault(f"the pattern is not valid RE2: {reason[:100]}", *pointer) from None


def _patterns(part: SchemaPart) -> Iterator[tuple[tuple[str, ...], str]]:
    if "pattern" in part.schema:
        yield (*part.pointer, "pattern"), part.schema["pattern"]
    for pattern in part.schema.get("patternProperties", ()):
        yield (*part.pointer, "patternProperties", pattern), pattern


def _check_references(parts: Mapping[tuple[str, ...], SchemaPart]) -> None:
    named = {
        f"#{part.schema[keyword]}": part
        for part in parts.values()
        for keyword in ("$anchor", "$dynamicAnchor")
        if keyword in part.schema
    }
    targets = {
        (*part.pointer, keyword): _target(part.schema[keyword], parts, named, (*part.pointer, keyword))
        for part in parts.values()
        for keyword in REFERENCE_KEYWORDS
        if keyword in part.schema
    }
    sizes: dict[tuple[str, ...], int] = {}
    for part in parts.values():
        if _size(part, targets, sizes, frozenset()) > MOST_AT_ONE_PLACE:
            raise SchemaFault(f"more than {MOST_AT_ONE_PLACE} schemas apply to one value", *part.pointer)


def _target(
    reference: str,
    parts: Mapping[tuple[str, ...], SchemaPart],
    named: Mapping[str, SchemaPart],
    pointer: tuple[str, ...],
) -> SchemaPart:
    if not reference.startswith("#"):
        raise SchemaFault("a reference must lead to another part of the schema: #/$defs/…", *pointer)
    steps = unquote(reference[1:]).split("/")[1:]
    found = named.get(reference) or parts.get(tuple(step.replace("~1", "/").replace("~0", "~") for step in steps))
    if found is None or (reference != "#" and not steps and reference not in named):
        raise SchemaFault(f"there is no schema at {reference[:100]}", *pointer)
    return found


def _size(
    part: SchemaPart,
    targets: Mapping[tuple[str, ...], SchemaPart],
    sizes: dict[tuple[str, ...], int],
    within: frozenset[object],
) -> int:
    """Return the number of schemas that apply to the value of this one."""
    if part.pointer in within:
        raise SchemaFault("the reference leads back to itself", *part.pointer)
    if len(within) > MOST_AT_ONE_PLACE:
        return len(within)
    if part.pointer not in sizes:
        beside = [each for each in parts_of(part.schema, part.pointer) if each.same_place]
        beside += [targets[key] for keyword in REFERENCE_KEYWORDS if (key := (*part.pointer, keyword)) in targets]
        sizes[part.pointer] = 1 + sum(_size(each, targets, sizes, within | {part.pointer}) for each in beside)
    return sizes[part.pointer]
