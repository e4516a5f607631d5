"""Text as every store can hold it, and nothing else about it changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.jobs import JobError
from app.domain.text import ERROR_LIMIT, scrub, scrub_error, scrub_json

# Lone surrogates too, which `st.text` leaves out unless asked.
ANY_TEXT = st.text(st.characters(exclude_categories=[]))
CLEAN_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=5,
)


@given(text=ANY_TEXT)
def test_scrubbed_text_is_utf8_without_nul(text: str) -> None:
    scrubbed = scrub(text)
    assert scrubbed.encode().decode() == scrubbed
    assert "\0" not in scrubbed
    assert scrub(scrubbed) == scrubbed


@given(text=CLEAN_TEXT)
def test_clean_text_is_kept_as_it_is(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("a\0b", "ab"),
        ("a\ud800b", "ab"),
        ("c\udc00d", "cd"),
        ("\ud83d\ude00", "😀"),
        ("\ude00\ud83d", ""),
        ("\ud83d\ud83d\ude00", "😀"),
        ("\ud800\0\udc00", ""),
        ("a\r\n\t\x1b\x7f\ufeff", "a\r\n\t\x1b\x7f\ufeff"),
    ],
)
def test_pairs_are_joined_and_lone_surrogates_and_nul_are_dropped(text: str, scrubbed: str) -> None:
    assert scrub(text) == scrubbed


@given(value=JSON)
def test_every_text_in_a_json_value_is_scrubbed_names_included(value: object) -> None:
    assert "\\u0000" not in ascii(scrub_json(value)).replace("\\\\", "")
    assert scrub_json(scrub_json(value)) == scrub_json(value)


def test_a_json_value_is_copied_so_that_nobody_changes_it_from_outside() -> None:
    inner: list[object] = [1, "a\0"]
    scrubbed = scrub_json({"a\0": {"b": inner}, "c": (None, True, 1.5)})
    inner.append(2)
    assert scrubbed == {"a": {"b": [1, "a"]}, "c": [None, True, 1.5]}


def test_an_errors_message_is_scrubbed_and_cut() -> None:
    error = scrub_error(JobError(code="in\0ternal", message="\ud800" + "x" * 10_000))
    assert error == JobError(code="internal", message="x" * ERROR_LIMIT)


def test_no_error_stays_none() -> None:
    assert scrub_error(None) is None
