"""The measures of the OCR benchmark: what counts as read right."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchmarks.read.score import distance, score


def plainly(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for number, one in enumerate(a, 1):
        before, row = row, [number]
        for index, other in enumerate(b):
            row.append(min(before[index + 1] + 1, row[-1] + 1, before[index] + (one != other)))
    return row[-1]


@given(some.text("abc", max_size=40), some.text("abc", max_size=40))
def test_the_distance_is_levenshteins(a: str, b: str) -> None:
    assert distance(a, b) == plainly(a, b)


def test_a_perfect_page_and_an_empty_one() -> None:
    right = score("Total: 9.00\n\nThank you", "Total:  9.00 Thank you")
    assert (right.word_f1, right.bare_f1, right.cer, right.cer_any_order) == (1, 1, 0, 0)
    assert score("", "").word_f1 == 1
    nothing = score("", "some text")
    assert (nothing.word_f1, nothing.cer, nothing.cer_any_order) == (0, 1, 1)


def test_words_in_another_order_cost_characters_in_order_alone() -> None:
    other = score("b c a", "a b c")
    assert (other.word_f1, other.cer_any_order) == (1, 0)
    assert other.cer > 0


def test_a_word_counts_as_often_as_it_stands_there() -> None:
    assert score("ten ten", "ten").word_f1 == pytest.approx(2 / 3)


def test_case_counts_unless_the_truth_has_none() -> None:
    assert score("total", "Total").word_f1 == 0
    assert score("Total", "TOTAL").word_f1 == 1


def test_punctuation_set_apart_costs_words_but_no_bare_ones() -> None:
    apart = score("13:34", "13 : 34")
    assert (apart.word_f1, apart.bare_f1) == (0, 1)


def test_typographic_quotes_and_dashes_are_plain_ones() -> None:
    assert score("“don’t” – ﬁne", '"don\'t" - fine').word_f1 == 1
