"""`.env.example` says what can be set, and what holds where nothing is."""

import re
from pathlib import Path

import pytest

from app.settings import PREFIX, Settings
from tests.support.env_example import PATH, assignments, render


def test_the_file_is_the_one_made_from_the_settings() -> None:
    assert PATH.read_text() == render(), "run `python -m tests.support.env_example`"


def test_it_lists_exactly_the_settings() -> None:
    assert list(assignments(PATH.read_text())) == [PREFIX + name.upper() for name in Settings.model_fields]


def test_nothing_in_it_is_set() -> None:
    assert [line for line in PATH.read_text().splitlines() if line and not line.startswith("#")] == []


def test_a_description_stands_above_each_assignment() -> None:
    for entry in PATH.read_text().strip().split("\n\n")[1:]:
        *description, assignment = entry.splitlines()
        assert description
        assert all(line.startswith("# ") for line in description)
        assert re.fullmatch(rf"#{PREFIX}[A-Z_]+=.*", assignment)


def test_no_line_is_too_long_to_be_read() -> None:
    assert [line for line in PATH.read_text().splitlines() if len(line) > 100] == []


def test_uncommenting_a_default_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in assignments(PATH.read_text()):
        monkeypatch.delenv(name, raising=False)
    untouched = Settings()
    for name, value in assignments(PATH.read_text()).items():
        if value:
            monkeypatch.setenv(name, value)
    assert Settings() == untouched


def test_no_path_or_account_of_the_machine_that_made_it_is_in_it() -> None:
    text = PATH.read_text()
    assert str(Path.home()) not in text
    assert str(Path.cwd()) not in text
