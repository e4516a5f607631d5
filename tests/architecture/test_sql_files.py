"""Each migration has its SQL in a folder of its own, one function a file, all of it named in its order by the `.py`."""

import re
from pathlib import Path

import pytest

VERSIONS = Path(__file__).parents[2] / "alembic" / "versions"
FOLDERS = sorted(path for path in VERSIONS.iterdir() if path.is_dir() and path.name != "__pycache__")
FUNCTIONS = sorted(VERSIONS.glob("*/functions/*.sql"))
LINE = 120


def test_there_are_some() -> None:
    assert FOLDERS
    assert FUNCTIONS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_each_file_of_a_folder_is_run_by_its_migration(folder: Path) -> None:
    named = re.findall(r'"([^"\s]+\.sql)"', folder.with_suffix(".py").read_text())
    there = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert sorted(named) == there


@pytest.mark.parametrize("file", FUNCTIONS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_a_file_of_functions_holds_the_one_whose_name_it_has(file: Path) -> None:
    assert re.findall(r"^create (?:or replace )?function daira\.(\w+)\(", file.read_text(), re.MULTILINE) == [file.stem]


@pytest.mark.parametrize("file", FUNCTIONS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_a_body_keeps_to_the_width_and_to_blanks(file: Path) -> None:
    """sqlfluff (`./daira sql`) does not look into bodies."""
    lines = file.read_text().splitlines()
    assert [line for line in lines if len(line) > LINE or line != line.rstrip() or "\t" in line] == []


@pytest.mark.parametrize("migration", sorted(VERSIONS.glob("*.py")), ids=lambda path: path.stem)
def test_a_migration_puts_no_sql_together(migration: Path) -> None:
    text = migration.read_text()
    assert re.findall(r"^def (\w+)", text, re.MULTILINE) == ["upgrade", "downgrade"]
    assert not re.search(r"\.replace\(|\.format\(|\bf\"|get_revision", text)
    assert "set local lock_timeout = '5s'" in text
