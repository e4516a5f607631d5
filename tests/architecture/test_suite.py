"""What the order of the tests, and the quick ones among them, are told by is there."""

import pytest

from tests.support.folders import ROOT
from tests.support.suite import MARKERS, QUICK, SECONDS, folders_left_out


def test_every_file_that_is_named_is_there() -> None:
    named = [*SECONDS, *(path.partition("::")[0] for path in QUICK)]
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_marker_with_a_command_of_its_own_is_left_out_of_the_usual_run(pytestconfig: pytest.Config) -> None:
    given = " ".join(pytestconfig.getini("addopts"))
    assert [marker for marker in MARKERS if f"not {marker}" not in given] == []
    told = {line.partition(":")[0] for line in pytestconfig.getini("markers")}
    assert set(MARKERS) <= told


def test_what_the_quick_tests_leave_out_is_said_with_the_number_of_files() -> None:
    left_out = dict(line.split(": ") for line in folders_left_out())
    assert "tests/unit" not in left_out
    assert left_out["tests/integration"].startswith("all ")
    assert " of " in left_out["tests/conformance"]
