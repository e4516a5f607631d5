"""Merges the values found in the parts of a document.

No list entry is lost, and differences between parts are reported.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.domain.llm.citations import Citation


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A JSON value and the citations of its parts, by JSON pointers into it."""

    data: Any
    citations: Mapping[str, Citation]


@dataclass(frozen=True, slots=True)
class MergedValue:
    data: Any
    citations: dict[str, Citation] = field(default_factory=dict)
    alternatives: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    """The values of other parts, by pointer."""


@dataclass(frozen=True, slots=True)
class _Value:
    data: Any
    at: str
    within: LocatedValue


def leaves(data: object, at: str = "") -> Iterator[tuple[str, object]]:
    """Yield each leaf with its JSON pointer. null, "", {} and [] count as no value."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            yield from leaves(value, f"{at}/{escaped_pointer(name)}")
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from leaves(value, f"{at}/{index}")
    elif data is not None and data != "":
        yield at, data


def escaped_pointer(name: str) -> str:
    """Escape a name for a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def merge(
    found: Sequence[LocatedValue], *, sets: Collection[str] = (), same: Callable[[Any], object] = repr
) -> MergedValue:
    """Merge objects name by name and concatenate lists. Of other values take the first verified one, or else the first.

    `sets` has pointers to lists in which equal entries count as one. `same` returns a key that equal values share.
    """
    merging = _Merger(sets, same)
    data = merging.together("", [_Value(each.data, "", each) for each in found])
    return MergedValue(data, merging.citations, merging.alternatives)


class _Merger:
    def __init__(self, sets: Collection[str], same: Callable[[Any], object]) -> None:
        self.citations: dict[str, Citation] = {}
        self.alternatives: dict[str, list[dict[str, object]]] = {}
        self._sets = sets
        self._same = same

    def together(self, at: str, values: Sequence[_Value]) -> Any:
        said = [value for value in values if value.data is not None]
        if said and all(isinstance(value.data, Mapping) for value in said):
            return self._object(at, said)
        if said and all(isinstance(value.data, list) for value in said):
            return self._list(at, said)
        return self._one(at, said) if said else None

    def _object(self, at: str, values: Sequence[_Value]) -> dict[str, Any]:
        names = dict.fromkeys(name for value in values for name in value.data)
        return {
            name: self.together(
                f"{at}/{escaped_pointer(name)}",
                [
                    _Value(value.data[name], f"{value.at}/{escaped_pointer(name)}", value.within)
                    for value in values
                    if name in value.data
                ],
            )
            for name in names
        }

    def _list(self, at: str, values: Sequence[_Value]) -> list[Any]:
        entries = [
            _Value(entry, f"{value.at}/{index}", value.within)
            for value in values
            for index, entry in enumerate(value.data)
        ]
        if at in self._sets:
            entries = list({self._same(entry.data): entry for entry in reversed(entries)}.values())[::-1]
        return [self._copied(f"{at}/{index}", entry) for index, entry in enumerate(entries)]

    def _one(self, at: str, values: Sequence[_Value]) -> Any:
        chosen = next((value for value in values if self._is_verified(value)), values[0])
        others = {self._same(value.data): value for value in reversed(values)}
        others.pop(self._same(chosen.data))
        if others:
            self.alternatives[at] = [_to_json(other) for other in reversed(others.values())]
        return self._copied(at, chosen)

    def _copied(self, at: str, value: _Value) -> Any:
        for pointer, _ in leaves(value.data):
            if citation := value.within.citations.get(value.at + pointer):
                self.citations[at + pointer] = citation
        return value.data

    def _is_verified(self, value: _Value) -> bool:
        citation = value.within.citations.get(value.at)
        return citation is not None and citation.verified


def _to_json(value: _Value) -> dict[str, object]:
    citation = value.within.citations.get(value.at, Citation(page=None))
    return {"value": value.data, **citation.to_json()}
