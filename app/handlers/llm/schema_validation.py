"""Validates an answer against its JSON Schema within a bounded time, because both are untrusted."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from app.handlers.llm.schema_checks import AnySchema, Schema, compile_pattern

MOST_STEPS = 50_000
"""The most keywords checked for one answer: two seconds at most. An honest answer of 3,000 values needs some 11,000."""

Keyword = Callable[[Any, Any, Any, Schema], Iterator[ValidationError] | None]


class TooMuchWorkError(Exception): ...


class SchemaValidator:
    def __init__(self, schema: Schema) -> None:
        self._steps = 0
        keywords: dict[str, Keyword] = {**Draft202012Validator.VALIDATORS, **BOUNDED_KEYWORDS}
        bounded = extend(Draft202012Validator, {name: self._counted(keyword) for name, keyword in keywords.items()})
        # An empty registry, so that no reference makes the library fetch anything.
        self._validator = bounded(dict(schema), registry=Registry())

    def faults(self, value: object) -> Iterator[ValidationError]:
        """Yield the faults. Raises TooMuchWorkError where schema and value together take too long."""
        self._steps = 0
        try:
            yield from self._validator.iter_errors(value)
        except RecursionError:
            raise TooMuchWorkError from None

    def accepts(self, value: object, schema: AnySchema) -> bool:
        """Return True if a part of the schema accepts the value."""
        return bool(self._validator.evolve(schema=schema).is_valid(value))

    def _counted(self, keyword: Keyword) -> Keyword:
        def look(validator: Any, keyword_value: Any, value: Any, schema: Schema) -> Iterator[ValidationError]:
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise TooMuchWorkError
            yield from keyword(validator, keyword_value, value, schema) or ()

        return look


def schema_place(fault: ValidationError) -> str:
    """Return the fault's path in the schema. The value is not repeated."""
    return "/" + "/".join(map(str, fault.absolute_schema_path))


def _pattern(_validator: Any, pattern: str, value: object, _schema: Schema) -> Iterator[ValidationError]:
    if isinstance(value, str) and not compile_pattern(pattern).search(value):
        yield ValidationError("the text does not match the pattern")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, object], value: object, _schema: Schema
) -> Iterator[ValidationError]:
    if isinstance(value, Mapping):
        for pattern, schema in patterns.items():
            for name, each in value.items():
                if compile_pattern(pattern).search(name):
                    yield from validator.descend(each, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, schema: object, value: object, around: Schema) -> Iterator[ValidationError]:
    if isinstance(value, Mapping):
        patterns = [compile_pattern(pattern) for pattern in around.get("patternProperties", ())]
        for name, each in value.items():
            known = name in around.get("properties", ()) or any(pattern.search(name) for pattern in patterns)
            if not known:
                yield from validator.descend(each, schema, path=name)


def _unique_items(_validator: Any, wanted: bool, value: object, _schema: Schema) -> Iterator[ValidationError]:  # noqa: FBT001 - as the library calls it
    if wanted and isinstance(value, list) and len({hashable(each) for each in value}) < len(value):
        yield ValidationError("two of the values are equal")


def hashable(value: object) -> object:
    """Return a hashable JSON value, equal to another as JSON Schema defines it: 1 equals 1.0, and not true."""
    match value:
        case Mapping():
            return frozenset((name, hashable(each)) for name, each in value.items())
        case list():
            return tuple(map(hashable, value))
        case bool():
            return ("a yes or no", value)
        case _:
            return value


BOUNDED_KEYWORDS: Mapping[str, Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
"""Keywords reimplemented here.
The library's use Python's regular expressions, which take exponential time, or compare all values with all."""
