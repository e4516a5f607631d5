"""What clients, operators and dashboards rely on is what it was: changed on purpose, or not at all."""

import difflib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.folders import ROOT
from tests.support.outside_contract import PATH, without_prose
from tests.support.service import environment

COMMAND = "PYTHONPATH=. python -P -m tests.support.outside_contract"

ON_PURPOSE = f"If this is meant, run `{COMMAND}`, commit what it writes, and note it in CHANGELOG.md."

KEPT: dict[str, Any] = json.loads(PATH.read_text())


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """In a process of its own: the program is started in it, and no test's settings reach it."""
    command = [sys.executable, "-P", "-m", "tests.support.outside_contract", "--print"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    contract: dict[str, Any] = json.loads(done.stdout)
    return contract


def test_the_contract_has_no_other_parts(found: dict[str, Any]) -> None:
    assert found.keys() == KEPT.keys(), ON_PURPOSE


@pytest.mark.parametrize("part", KEPT)
def test_the_outside_contract_is_kept(found: dict[str, Any], part: str) -> None:
    changes = differences(KEPT[part], found.get(part))
    assert changes == [], "\n".join(["", *changes, "", ON_PURPOSE])


def test_a_difference_is_named_by_where_it_is() -> None:
    kept = {"daira upload": {"options": {"--wait": {"required": False}}, "names": ["a", "b"]}}
    new = {"daira upload": {"options": {"--stay": {"required": False}}, "names": ["a"]}}
    assert differences(kept, new) == [
        '- daira upload › names = ["a", "b"]',
        "- daira upload › options › --wait › required = false",
        '+ daira upload › names = ["a"]',
        "+ daira upload › options › --stay › required = false",
    ]


def test_texts_are_no_part_of_the_contract_and_fields_named_like_them_are() -> None:
    webhook = {"title": "Webhook", "properties": {"description": {"type": "string", "description": "Yours."}}}
    assert without_prose(webhook) == {"properties": {"description": {"type": "string"}}}


def differences(kept: Any, found: Any) -> list[str]:
    """Lines that only one of the two has, `-` for what is gone and `+` for what is new."""
    lines = difflib.unified_diff(sorted(flat(kept)), sorted(flat(found)), n=0, lineterm="")
    return [f"{line[0]} {line[1:]}" for line in list(lines)[2:] if not line.startswith("@@")]


def flat(part: Any, *path: str) -> Iterator[str]:
    """A line for each value, after the way to it."""
    if isinstance(part, dict) and part:
        for name, value in part.items():
            yield from flat(value, *path, name)
    elif isinstance(part, list) and any(isinstance(each, dict | list) for each in part):
        for number, value in enumerate(part):
            yield from flat(value, *path, named(value, number))
    else:
        yield f"{' › '.join(path)} = {json.dumps(part, ensure_ascii=False)}"


def named(part: Any, number: int) -> str:
    """An entry of a list by what it calls itself, so that one that is new does not shift the others."""
    if not isinstance(part, dict):
        return str(number)
    words = [str(part[key]) for key in ("in", "name", "event", "level", "code", "status") if key in part]
    return " ".join(words) or str(number)
