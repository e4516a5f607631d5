"""The dashboard: what it asks for can be answered, and its panels can be found."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.folders import ROOT
from tests.support.prometheus import charts, promtool

PANELS: list[dict[str, Any]] = json.loads((ROOT / "deploy" / "grafana" / "daira.json").read_text())["panels"]


def test_panels_have_numbers_of_their_own_and_none_lies_on_another() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    places = [panel["gridPos"] for panel in PANELS]
    assert [pair for pair in combinations(places, 2) if _overlap(*pair)] == []


def test_the_first_look_tells_whether_work_is_late_or_stuck() -> None:
    first = [panel for panel in PANELS if panel["gridPos"]["y"] < 6 and panel["type"] == "stat"]
    asked = " ".join(target["expr"] for panel in first for target in panel["targets"])
    for name in ("daira_oldest_due_seconds", "daira_jobs_stuck", "daira_backlog_up", "ALERTS"):
        assert name in asked


@pytest.mark.prometheus
def test_every_question_is_understood(tmp_path: Path) -> None:
    rules = [{"record": "asked", "expr": expression} for expression in sorted(charts())]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "charts", "rules": rules}]}))
    checked = promtool("check", "rules", "--lint=none", "rules.yml", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return (
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )
