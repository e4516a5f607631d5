"""Checks commit messages: `area: what changes` in at most 72 characters, an empty line, and a body with the reason.

Commits up to BASE and merges are exempt. If the clone is too shallow to hold BASE, its commits are checked.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASE = "8b722dac28f6e4b7f7b1670172f42874f8a10002"
"""The last commit from before this rule."""

LONGEST = 72
"""Characters: `git log --oneline` and the forges cut longer subjects."""

SUBJECT = re.compile(r"[a-z0-9][a-z0-9/,-]*: \S.*(?<!\.)")


def faults(message: str) -> list[str]:
    subject, _, rest = message.strip("\n").partition("\n")
    found = []
    if len(subject) > LONGEST:
        found.append(f"the subject has {len(subject)} characters; {LONGEST} are allowed")
    if not SUBJECT.fullmatch(subject):
        found.append("the subject is not `area: what changes`, without a full stop")
    if rest and not rest.startswith("\n"):
        found.append("the line below the subject is not empty")
    if not rest.strip():
        found.append("the message has no body: give the problem and the reason")
    return found


def main(folder: Path, *, base: str = BASE) -> int:
    """Prints each fault with its commit. Returns the exit status."""
    # `merge-base` fails both for a missing commit and for one that is no ancestor.
    known = _git(folder, "merge-base", "--is-ancestor", base, "HEAD").returncode == 0
    if not known:
        print(f"{base} is not in this clone's history: only the commits that are there are checked")
    log = _git(folder, "log", "--no-merges", "-z", "--format=%h%n%B", f"{base}..HEAD" if known else "HEAD")
    if log.returncode:
        print(log.stderr.strip(), file=sys.stderr)
        return 1
    commits = [entry.partition("\n") for entry in log.stdout.split("\0") if entry]
    found = [(name, message, fault) for name, _, message in commits for fault in faults(message)]
    for name, message, fault in found:
        print(f"{name} {message.splitlines()[:1]}: {fault}")
    print(f"{len(commits)} commits checked, {len(found)} faults")
    return 1 if found else 0


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", folder, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main(ROOT))
