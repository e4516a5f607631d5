"""Findings of the security linter and of the auditor: none is passed over without a reason beside it."""

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FILES = [path for folder in ("app", "alembic", "benchmarks", ".ci") for path in sorted((ROOT / folder).rglob("*.py"))]

PASSED_OVER = re.compile(r"# noqa: [A-Z0-9, ]*\bS\d{3}\b(?P<rest>.*)")
REASON = re.compile(r"[A-Z0-9, ]*\s--? \S")


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def silent(line: str) -> bool:
    """Whether a finding is passed over without a word."""
    found = PASSED_OVER.search(line)
    return found is not None and not REASON.match(found["rest"])


def test_a_finding_in_the_code_is_passed_over_for_a_reason() -> None:
    lines = [(path, line) for path in FILES for line in path.read_text().splitlines()]
    assert [f"{path.relative_to(ROOT)}: {line.strip()}" for path, line in lines if silent(line)] == []
    assert silent("x = 1  # noqa: S608")
    assert silent("x = 1  # noqa: S603, S607")
    assert not silent("x = 1  # noqa: S603, S607 - our own program")


def test_the_security_rules_are_on_and_each_that_is_off_has_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert tomllib.loads(text)["tool"]["ruff"]["lint"]["select"] == ["ALL"]
    off = [line for line in text.splitlines() if re.match(r'\s+"S\d{3}"', line)]
    assert len(off) > 5
    assert [line for line in off if "# " not in line] == []


def found(**more: object) -> list[dict[str, object]]:
    return [{"name": "starlette", "version": "1.0", "vulns": []} | more]


VULNERABILITY = {"id": "CVE-2026-1", "fix_versions": ["1.1"]}


def test_a_finding_of_the_auditor_fails_and_an_accepted_one_does_not(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not audit.judge("production", found())
    assert audit.judge("production", found(vulns=[VULNERABILITY]))
    assert "starlette 1.0: CVE-2026-1, fixed in ['1.1']" in capsys.readouterr().out
    monkeypatch.setitem(audit.ACCEPTED, "CVE-2026-1", "not reachable")
    assert not audit.judge("production", found(vulns=[VULNERABILITY]))


@pytest.mark.parametrize("answer", [None, [], found(skip_reason="not on the index")])
def test_what_was_not_checked_is_told_and_fails_where_it_must_be(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: object
) -> None:
    monkeypatch.delenv("DAIRA_AUDIT", raising=False)
    assert not audit.judge("production", answer)
    assert "NOT CHECKED" in capsys.readouterr().out
    monkeypatch.setenv("DAIRA_AUDIT", "required")
    assert audit.judge("production", answer)


def test_an_accepted_advisory_has_a_reason(audit: ModuleType) -> None:
    assert [name for name, reason in audit.ACCEPTED.items() if len(reason) < 20] == []
