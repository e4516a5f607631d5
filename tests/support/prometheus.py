"""Debian's Prometheus and its promtool; `.ci/run` installs them."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.alert_cases import Case
from tests.support.folders import ROOT
from tests.support.ports import free_port
from tests.support.service import answers, wait_until

RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "daira.json"


def program(name: str) -> str:
    """`prometheus` or `promtool`, from the path or from DAIRA_PROMETHEUS, a folder where the package was unpacked."""
    found = shutil.which(name, path=f"{os.environ.get('DAIRA_PROMETHEUS', '')}:{os.environ['PATH']}")
    assert found, f"{name} is missing; on Debian: apt-get install prometheus"
    return found


@cache
def alerts() -> Mapping[str, Mapping[str, Any]]:
    """Each rule, by the alert's name."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


@cache
def charts() -> frozenset[str]:
    """What the dashboard asks for, as it asks for the last minutes."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = {target["expr"] for panel in panels for target in panel.get("targets", [])}
    return frozenset(expression.replace("$__rate_interval", "1m") for expression in asked)


def names_in(expressions: Iterable[str]) -> set[str]:
    return {name for expression in expressions for name in re.findall(r"\bdaira_\w+", expression)}


def promtool(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("promtool"), *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def unit_tests(cases: Mapping[str, list[Case]], rules: Path = RULES) -> str:
    """What `promtool test rules` reads."""
    tests = [_unit_test(alert, case) for alert, several in cases.items() for case in several]
    return str(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "15s", "tests": tests}, width=10_000))


def _unit_test(alert: str, case: Case) -> dict[str, Any]:
    moments = {case.quiet: 0, case.fires: 1, case.over: 0}
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "promql_expr_test": [
            {
                # Of labels and texts it says nothing: the rule's own words would stand here a second time.
                "expr": f'(count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or on() vector(0)) > bool 0',
                "eval_time": moment,
                "exp_samples": [{"labels": "{}", "value": fires}],
            }
            for moment, fires in moments.items()
        ],
    }


WINDOW = "15s"


def hurried(**thresholds: tuple[str, str]) -> str:
    """The rules for who can't wait: no `for`, short windows, and of the alerts named another threshold."""
    rules = []
    for name, rule in alerts().items():
        before, after = thresholds.get(name, ("", ""))
        assert before in rule["expr"], (name, before)
        expr = re.sub(r"(?<=\[)\w+(?=\])|(?<=offset )\w+", WINDOW, rule["expr"])
        rules.append(dict(rule) | {"expr": expr.replace(before, after) if before else expr, "for": "0s"})
    return str(yaml.safe_dump({"groups": [{"name": "daira", "interval": "1s", "rules": rules}]}))


@dataclass(frozen=True, kw_only=True)
class Prometheus:
    url: str

    def firing(self) -> set[str]:
        answer = httpx.get(f"{self.url}/api/v1/alerts", trust_env=False, timeout=10).json()
        return {alert["labels"]["alertname"] for alert in answer["data"]["alerts"] if alert["state"] == "firing"}


@contextmanager
def prometheus(folder: Path, *, rules: str, targets: list[int]) -> Iterator[Prometheus]:
    """A real one on loopback, which looks at these ports each second."""
    port = free_port()
    scraped = [{"targets": [f"127.0.0.1:{target}" for target in targets]}]
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"},
        "rule_files": [str(folder / "rules.yml")],
        "scrape_configs": [{"job_name": "daira", "static_configs": scraped}],
    }
    (folder / "rules.yml").write_text(rules)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    process = subprocess.Popen(
        [
            program("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ],
        cwd=folder,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(f"{url}/-/ready"), seconds=60)
        yield Prometheus(url=url)
    finally:
        process.terminate()
        process.wait(timeout=60)
