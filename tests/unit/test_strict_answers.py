"""What a model says becomes one value, or is refused; nothing is repaired."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.llm.merging import LocatedValue
from app.handlers.llm.answers import UnusableAnswer, parse_answer, read_answer
from app.handlers.llm.conversation import NoUsableAnswer
from app.handlers.llm.extract_merge import joined_answer, part_schema, whole_schema
from app.handlers.llm.schema_checks import check_schema
from app.handlers.llm.schema_validation import SchemaValidator, hashable


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        (' {"a": [1, 2.5, null, true]}\n', {"a": [1, 2.5, None, True]}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n"x"\n```\n', "x"),
        ('"a\\u0000b\\ud800c"', "abc"),
        ('["a\\u0000", ["\\ud83d\\ude00"]]', ["a", ["😀"]]),
        ('{"a\\u0000": {"b": "\\udfff"}}', {"a": {"b": ""}}),
    ],
)
def test_one_json_value_is_read(text: str, value: object) -> None:
    assert parse_answer(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null and void",
        "{} {}",
        "Here you are: {}",
        "{}\nI hope this helps.",
        "```json\n{}",
        "```json\n{}\n```\n```json\n{}\n```",
        '{"a": 1, "a": 2}',
        '{"a": 1, "a\\u0000": 2}',
        '[{"b": {"a": 1, "a": 1}}]',
        "[1,]",
        "{'a': 1}",
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e999",
        "9" * 5_000,
        "[" * 200 + "]" * 200,
        "[" * 200_000,
        '{"a":' * 200_000,
        "\ufeff{}",
        '{"a": "\n"}',
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UnusableAnswer) as refused:
        parse_answer(text)
    assert len(str(refused.value)) < 100


def test_a_fault_names_the_schema_and_not_what_was_said() -> None:
    fitting = SchemaValidator({"properties": {"a": {"type": "number"}}, "additionalProperties": False})
    for text in ('{"a": "a secret"}', '{"a secret": 1}'):
        with pytest.raises(UnusableAnswer, match="at /") as refused:
            read_answer(text, fitting)
        assert "secret" not in str(refused.value)


def test_a_pattern_takes_linear_time() -> None:
    fitting = SchemaValidator({"type": "string", "pattern": "^(a+)+$"})
    assert [fault.validator for fault in fitting.faults("a" * 50_000 + "!")] == ["pattern"]
    named = SchemaValidator({"patternProperties": {"^(a+)+$": False}, "additionalProperties": {"type": "null"}})
    assert list(named.faults({"a" * 5_000 + "!": None})) == []
    assert len(list(named.faults({"aaa": None, "b": 1}))) == 2


def test_a_schema_that_doubles_with_each_level_is_given_up() -> None:
    doubling = {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"properties": {"x": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}}},
    }
    check_schema(doubling)
    with pytest.raises(UnusableAnswer, match="too long"):
        read_answer('{"x":' * 50 + "{}" + "}" * 50, SchemaValidator(doubling))


def test_many_entries_are_compared_quickly() -> None:
    fitting = SchemaValidator({"uniqueItems": True})
    assert list(fitting.faults([{"a": number} for number in range(20_000)])) == []
    assert list(fitting.faults([1, True, "1", [1], {"a": 1}, [True], {"a": True}])) == []
    doubled: list[list[object]] = [[1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [[], []]]
    for twice in doubled:
        assert [fault.validator for fault in fitting.faults(twice)] == ["uniqueItems"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_equal_values_freeze_alike(value: object) -> None:
    assert hashable(value) == hashable(json.loads(json.dumps(value)))
    assert isinstance(hash(hashable(value)), int)


TREE = {
    "$id": "https://example.com/tree",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
        "again": {"$ref": "#/properties/name"},
        "kind": {"$ref": "#/$defs/kind"},
        "odd": {"const": {"$ref": "#", "required": ["x"]}},
    },
    "required": ["name"],
    "$defs": {"kind": {"enum": ["a", "b"]}},
}


def test_references_follow_what_they_lead_to() -> None:
    whole = whole_schema(TREE)
    check_schema(whole)
    fitting = SchemaValidator(whole)
    good = {
        "name": "x",
        "children": [{"name": "y"}],
        "again": "z",
        "kind": "a",
        "odd": {"$ref": "#", "required": ["x"]},
    }
    assert list(fitting.faults({"data": good, "sources": []})) == []
    for bad in ({"name": "x", "children": [{}]}, {"name": "x", "again": 1}, {"name": "x", "kind": "c"}, {}):
        assert list(fitting.faults({"data": bad, "sources": []})) != []
    assert whole["$defs"] == TREE["$defs"]


def test_of_a_part_nothing_is_required_but_what_is_there_must_fit() -> None:
    fitting = SchemaValidator(part_schema(TREE))
    fitting_parts: list[dict[str, object]] = [{}, {"children": []}, {"children": [{}]}]
    for good in fitting_parts:
        assert list(fitting.faults({"data": good, "sources": []})) == []
    assert list(fitting.faults({"sources": []})) == []
    assert list(fitting.faults({"data": {"kind": "c"}, "sources": []})) != []


def test_what_was_not_found_is_said_where_the_schema_has_a_way_to() -> None:
    schema = {
        "properties": {
            "a": {"type": ["string", "null"]},
            "b": {"type": "array", "items": {}},
            "c": {"$ref": "#/$defs/c"},
        },
        "required": ["a", "b", "c"],
        "$defs": {"c": {"type": "object"}},
    }
    assert joined_answer([LocatedValue({}, {}), LocatedValue({}, {})], schema).data == {"a": None, "b": [], "c": {}}
    assert joined_answer([LocatedValue(None, {}), LocatedValue(None, {})], {"type": "array"}).data == []
    for found in ({"d": {"type": "number"}}, {"d": {"type": "string", "minLength": 1}}):
        with pytest.raises(NoUsableAnswer, match="/required") as failed:
            joined_answer([LocatedValue({}, {}), LocatedValue({}, {})], {"properties": found, "required": ["d"]})
        assert failed.value.code == "llm_invalid_output"


def test_where_entries_are_unique_those_of_two_parts_are_one() -> None:
    schema = {"properties": {"tags": {"type": "array", "uniqueItems": True}}}
    assert joined_answer(
        [LocatedValue({"tags": ["a", "b"]}, {}), LocatedValue({"tags": ["b", "c"]}, {})], schema
    ).data == {"tags": ["a", "b", "c"]}
