"""The list of threats is the tests': none without a test or a reason, and the file in docs/ is the one made of them."""

import pytest

from tests.security.threats import PATH, THREATS, WITHOUT_A_TEST, by_row, faults, render


@pytest.fixture(scope="module")
def tests() -> dict[int, list[str]]:
    return by_row()


def test_every_threat_has_a_test_or_a_reason_and_not_both(tests: dict[int, list[str]]) -> None:
    assert len(THREATS) == 80
    assert faults(tests) == []


def test_the_file_is_the_one_made_of_the_tests(tests: dict[int, list[str]]) -> None:
    assert PATH.read_text() == render(tests)


def test_a_row_that_loses_its_tests_is_told(tests: dict[int, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert faults({row: names for row, names in tests.items() if row != 30}) == [
        "row 30 has neither a test nor a reason"
    ]
    assert faults(tests | {81: ["x"]}) == ["there is no row 81"]
    monkeypatch.setitem(WITHOUT_A_TEST, 30, "a reason")
    assert faults(tests) == ["row 30 has tests: take its reason away"]
