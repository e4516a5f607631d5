"""Stored JSON and names as values of the domain, read so that rows of a newer version are no error.

During a rolling deploy, and after a rollback, a row may have a key, a name or a form that this version does not know.
It is left out, and changes no answer but its own.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")
NameT = TypeVar("NameT", bound=StrEnum)


def stored_value(kind: type[T], stored: object, **defaults: object) -> T | None:
    """Return the dataclass that JSON describes; None where it is of another form or lacks a field without a default."""
    any_kind: Any = kind
    given = {name: part for name, part in stored_object(stored).items() if part is not None}
    try:
        read: T | None = _adapter(any_kind).validate_python(defaults | given) if given else None
    except ValidationError:
        return None
    return read


def stored_values(kind: type[T], stored: object, **defaults: object) -> list[T]:
    """Return those entries of a list that `stored_value` can read."""
    read = (stored_value(kind, entry, **defaults) for entry in stored_list(stored))
    return [value for value in read if value is not None]


def stored_object(stored: object) -> Mapping[str, Any]:
    return stored if isinstance(stored, Mapping) else {}


def stored_list(stored: object) -> list[Any]:
    return stored if isinstance(stored, list) else []


def known_name(kind: type[NameT], stored: object, *, otherwise: NameT) -> NameT:
    """Return the name that is stored, or `otherwise` for one that this version does not know."""
    names: Mapping[str, NameT] = _names(kind)
    return names.get(str(stored), otherwise)


def known_names(kind: type[NameT], stored: Iterable[object] | None) -> list[NameT]:
    """Return those of the names that this version knows."""
    names: Mapping[str, NameT] = _names(kind)
    return [names[str(each)] for each in stored or () if str(each) in names]


@cache
def _names(kind: type[StrEnum]) -> Mapping[str, Any]:
    return {name.value: name for name in kind}


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """Pydantic ignores keys that a dataclass does not have."""
    return TypeAdapter(kind)
