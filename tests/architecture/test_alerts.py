"""Alerts: each fires when it must and is over when it must be, and tells where to read on."""

import re
from pathlib import Path

import pytest

from tests.support.alert_cases import CASES, Case
from tests.support.folders import ROOT
from tests.support.prometheus import RULES, alerts, promtool, unit_tests

OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def test_every_alert_has_its_section_and_every_section_its_alert() -> None:
    sections = re.findall(r"^### (Daira\w+)$", OPERATIONS, re.MULTILINE)
    assert sorted(sections) == sorted(alerts())
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook_url"] == f"docs/operations.md#{name.lower()}"


@pytest.mark.parametrize("name", alerts())
def test_a_section_says_what_it_means_what_to_do_and_how_it_is_over(name: str) -> None:
    (section,) = re.findall(rf"^### {name}$(.*?)^##", OPERATIONS, re.MULTILINE | re.DOTALL)
    for part in ("**Means**", "**Do**", "**Over**"):
        assert part in section, (name, part)


def test_every_alert_is_tried_out() -> None:
    assert sorted(CASES) == sorted(alerts())


@pytest.mark.prometheus
def test_the_rules_are_rules() -> None:
    checked = promtool("check", "rules", str(RULES), cwd=ROOT)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.prometheus
@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_and_is_over(name: str, tmp_path: Path) -> None:
    assert _tried({name: CASES[name]}, tmp_path) == ""


@pytest.mark.prometheus
def test_an_alert_that_does_not_fire_is_noticed(tmp_path: Path) -> None:
    never = Case(series={'daira_jobs_stuck{kind="ocr"}': "0x300"}, fires="30m", over="80m")
    assert "DairaJobsStuck" in _tried({"DairaJobsStuck": [never]}, tmp_path)


def _tried(cases: dict[str, list[Case]], folder: Path) -> str:
    """What promtool has against them."""
    (folder / "tests.yml").write_text(unit_tests(cases))
    tested = promtool("test", "rules", "tests.yml", cwd=folder)
    return "" if tested.returncode == 0 else tested.stdout + tested.stderr
