"""Checks the packages of a production install against published advisories. A finding fails unless accepted here.

Packages that can't be looked up are reported and do not count as checked. With DAIRA_AUDIT=required they fail too.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".venv-audit"
AUDITED = ("production", "up", "rapidocr")

ACCEPTED: dict[str, str] = {}
"""Advisories that don't concern Daira: the id and the reason."""


def main() -> int:
    provide()
    failed = False
    for name in AUDITED:
        answer = ask(ROOT / "requirements" / f"{name}.txt")
        failed = judge(name, answer) or failed
    return 1 if failed else 0


def provide() -> None:
    """Install the auditor from hash-checked packages, apart from Daira's: it must not decide what is audited."""
    wanted = ROOT / "requirements" / "audit.txt"
    stamp = HOME / ".installed"
    if stamp.exists() and stamp.read_bytes() == wanted.read_bytes():
        return
    shutil.rmtree(HOME, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
    pip = [HOME / "bin" / "python", "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", wanted], check=True)
    stamp.write_bytes(wanted.read_bytes())


def ask(requirements: Path) -> list[dict[str, object]] | None:
    """The dependencies with their findings; None when there was no answer."""
    options = ["--disable-pip", "--require-hashes", "--progress-spinner=off", "--format=json"]
    done = subprocess.run(
        [HOME / "bin" / "pip-audit", *options, "-r", requirements], capture_output=True, text=True, check=False
    )
    try:
        dependencies: list[dict[str, object]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(done.stderr.strip().splitlines()[-1:] or "pip-audit said nothing")
        return None
    return dependencies


def judge(name: str, dependencies: list[dict[str, object]] | None) -> bool:
    """Print the findings. Returns True if they fail the check."""
    if not dependencies:
        print(f"NOT CHECKED: requirements/{name}.txt, the advisories could not be reached")
        return must_be_checked()
    findings = [
        f"{each['name']} {each['version']}: {vulnerability['id']}, fixed in {vulnerability['fix_versions']}"
        for each in dependencies
        for vulnerability in each.get("vulns", [])  # type: ignore[attr-defined]
        if vulnerability["id"] not in ACCEPTED
    ]
    skipped = [str(each["name"]) for each in dependencies if "skip_reason" in each]
    for finding in findings:
        print(finding)
    if skipped:
        print(f"NOT CHECKED: {len(skipped)} of {len(dependencies)} packages of requirements/{name}.txt are unknown to")
        print(f"             the index's advisories: {', '.join(skipped[:5])}…")
    print(f"requirements/{name}.txt: {len(dependencies) - len(skipped)} packages checked, {len(findings)} findings")
    return bool(findings) or (bool(skipped) and must_be_checked())


def must_be_checked() -> bool:
    return os.environ.get("DAIRA_AUDIT") == "required"


if __name__ == "__main__":
    sys.exit(main())
