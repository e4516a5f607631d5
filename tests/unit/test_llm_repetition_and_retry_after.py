"""Hints how long to wait, texts that run in circles, and how many tokens a text is: decided without a server."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.adapters.llm.repetition import RepetitionDetector, repeats
from app.adapters.llm.retry_after import LONGEST, retry_after_of
from app.adapters.llm.stream import without_bad_escapes
from app.domain.llm.token_estimate import estimate_tokens, least_tokens
from app.domain.text import scrub_json

NOON = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)


def date(seconds: float) -> str:
    return format_datetime(NOON + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({}, "", None),
        ({"retry-after": "7"}, "", 7),
        ({"retry-after": "0.25"}, "", 0.25),
        ({"retry-after": "7", "retry-after-ms": "6800"}, "", 6.8),
        ({"retry-after": "7"}, "try again in 3s", 7),
        ({"retry-after": date(45), "date": date(0)}, "", 45),
        ({"retry-after": date(-45), "date": date(0)}, "", 0),
        ({"retry-after": date(45)}, "", None),
        ({"retry-after": "Wed, 01 May 2024 12:00:00 -9999"}, "", None),
        ({"retry-after": "inf"}, "", None),
        ({"retry-after": "1e999"}, "", None),
        ({"retry-after": "-1"}, "", 0),
        ({"retry-after": "999999999999"}, "", LONGEST.total_seconds()),
        ({"retry-after": ""}, "Please try again in 7.934s. Visit", 7.934),
        ({}, "Please try again in 20ms.", 0.02),
        ({}, "Please try again in 1m30.5s.", 90.5),
        ({}, "Please retry after 33 seconds.", 33),
        ({}, "Retry in 2 minutes", 120),
        ({}, '{"error": {"retry_after": 3.5}}', 3.5),
        ({}, '{"retryDelay": "32s"}', 32),
        ({}, '{"retry_after_ms": 1500}', 1.5),
        ({}, "your order of 3 seconds of fame", None),
        ({}, "retry " * 10_000 + "9" * 10_000, None),
    ],
)
def test_a_wait_is_read_from_headers_and_words(headers: dict[str, str], body: str, seconds: float | None) -> None:
    found = retry_after_of(headers, body)
    assert found == (None if seconds is None else timedelta(seconds=seconds))


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "date"]), st.text()), st.text())
def test_a_wait_is_never_negative_nor_very_long(headers: dict[str, str], body: str) -> None:
    found = retry_after_of(headers, body)
    assert found is None or timedelta() <= found <= LONGEST


@pytest.mark.parametrize(
    "text",
    [
        "x" * 2000,
        " \n" * 1000,
        "The total is 12.50. " * 100,
        "ok: " + "é😀" * 1000,
        "".join(f"line {number}\n" for number in range(30)) * 9,
    ],
)
def test_circles_are_noticed(text: str) -> None:
    assert repeats(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-" * 1900,
        "The total is 12.50. " * 90,
        "x" * 5000 + " and that was the end of it",
        "".join(f"| {number} | 1.00 | 2.00 |\n" for number in range(500)),
        json.dumps([{"position": number, "price": 9.5, "page": 1} for number in range(300)]),
        ("a" * 1500 + "b") * 7,
    ],
)
def test_tables_and_lists_are_no_circles(text: str) -> None:
    assert not repeats(text)


@given(st.text(min_size=1, max_size=300), st.integers(1, 700))
def test_circles_are_noticed_however_they_arrive(passage: str, size: int) -> None:
    circles = RepetitionDetector()
    text = "Once upon a time. " + passage * (12_000 // len(passage))
    assert any(circles.closed_by(text[start : start + size]) for start in range(0, len(text), size))


MEASURED = {
    "The quick brown fox jumps over the lazy dog. ": 10,
    "I don't, we've, you'd, it's o'clock. ": 11,
    "7 x Part No. 48213-B   EUR 1,853.40   VAT 19%\n": 22,
    "snake_case /path/to/file --option-name ": 9,
    "| 1.00 | 2.00 | 3.00 |\n": 16,
    "人工智能是计算机科学的一个分支。": 11,
    "吾輩は猫である。名前はまだ無い。": 14,
    "대한민국의 주권은 국민에게 있고, 모든 권력은 국민으로부터 나온다. ": 19,
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में ": 13,
    "Все люди рождаются свободными и равными. ": 10,
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren. ": 14,
    "Chapter one .............................................. 7\n": 8,
}
"""Tokens in o200k_base, the most economical vocabulary in wide use."""


@pytest.mark.parametrize("text", MEASURED)
def test_the_two_figures_enclose_what_was_measured(text: str) -> None:
    measured = MEASURED[text] * 50
    assert least_tokens(text * 50) <= measured
    assert estimate_tokens(text * 50) >= 0.98 * measured
    assert estimate_tokens(text * 50) < 4 * measured


@given(st.text())
def test_the_lower_figure_is_the_lower_one(text: str) -> None:
    assert 0 <= least_tokens(text) <= estimate_tokens(text)


@given(st.text(), st.text())
def test_two_texts_are_not_fewer_tokens_than_one(one: str, other: str) -> None:
    assert estimate_tokens(one + other) <= estimate_tokens(one) + estimate_tokens(other) + 1


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec=None)),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(max_size=3), parts, max_size=4),
    max_leaves=12,
)


@given(JSONS)
def test_json_without_bad_escapes_is_the_json_with_every_text_scrubbed(value: object) -> None:
    assert json.loads(without_bad_escapes(json.dumps(value))) == scrub_json(value)
