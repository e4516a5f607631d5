"""`docs/threats.md`, made from the tests that carry `@pytest.mark.threat(number)`, and from the rows that none has.

Run `PYTHONPATH=. python -m tests.security.threats` after a change to either.
"""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs" / "threats.md"

THREATS = [
    "unclamped read on a fresh connection",
    "unclamped read on a used connection",
    "the empty tenant as a real tenant",
    "unclamped write",
    "insert for another tenant",
    "a row moved to another tenant",
    "read, update, delete by another tenant's id",
    "duplicate primary keys tell of another tenant's ids",
    "foreign keys tell of another tenant's ids, or pin its rows",
    "deduplication tells of another tenant's jobs",
    "idempotency keys across tenants",
    "an idempotency key with another body",
    "deduplication while the holder finishes",
    "a clamp that stays on a connection of the pool",
    "a clamp lost after a commit within a request",
    "autocommit: the clamp is gone with its own statement",
    "cancellation at any await",
    "PgBouncer in transaction mode",
    "a cached plan that keeps the former tenant",
    "a savepoint or exception block that brings the former tenant back",
    "the owner's or a superuser's login in a serving process",
    "row-level security or FORCE missing on a table or partition",
    "a permissive policy too many, a role too many",
    "views, materialized views, definer functions",
    "TRUNCATE, COPY, row_security = off",
    "the role that looks across reads content",
    "the role that looks across sees finished work",
    "a data migration that silently changes nothing",
    "an empty backup",
    "a forged message: a tenant with another's job",
    "a message for an unknown tenant or a deleted job",
    "a tenant in a message that is empty, null, missing or no text",
    "a malformed message",
    "a message with extra fields",
    "duplicate and late messages",
    "forged notifications",
    "one tenant's deep queue slows claims",
    "deadlocks between batches",
    "ids enumerated by 404 against 403",
    "ids told apart by the time it takes",
    "cursors of listings tampered with",
    "injection by filters and sort orders",
    "API keys in a dump of the database",
    "keys enumerated by answers or time",
    "revoked, expired, rotated keys; scopes",
    "a tenant's key with a path that names another",
    "JSON Web Tokens of every wrong kind",
    "a body over the limit, with and without its length",
    "slow headers, slow bodies, slow readers",
    "multipart bombs",
    "compressed bombs and archives",
    "floods of pixels, odd images",
    "hostile PDFs",
    "a parser that crashes, grows, forks or reads files",
    "a type that is not what it claims",
    "hostile file names",
    "stored scripts and guessed types at a download",
    "abuse of ranges",
    "storage keys that leave their tenant",
    "presigned URLs beyond their scope",
    "bytes exchanged after they were checked",
    "server-side request forgery by webhooks",
    "webhooks forged or replayed",
    "webhooks to a wrong tenant's endpoint",
    "slow or huge answers to webhooks",
    "rate limits got around",
    "one tenant fills queue, storage or connections",
    "log injection",
    "content and secrets in logs and errors",
    "errors that tell of the inside",
    "metrics, health and documentation without a key",
    "memory adapters in production",
    "weak secrets, debug, wildcards in production",
    "tenants' names in odd spellings",
    "suspended and removed tenants",
    "a sweeper that sees nothing",
    "caches shared by tenants",
    "advisory locks that collide",
    "a worker that comes late",
    "SQL injection, which could set the clamp",
]
"""In the order of their numbers, from 1."""

WITHOUT_A_TEST: dict[int, str] = {}
"""Rows that don't apply, and why. One that has a test is no longer listed here."""

HEADER = """\
# Threats

Each row of the threat model ([security.md](security.md)) with the tests that would fail if it came true. Made by
`PYTHONPATH=. python -m tests.security.threats`; a test compares it with the tests that there are.

| # | threat | tests |
|---|---|---|
"""

FOUND = "threat-found"


class Finder:
    """Tells of each collected test that carries a row's number."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("threat"):
                for row in mark.args:
                    print(FOUND, row, item.nodeid.partition("[")[0])  # noqa: T201 - read by whoever started this


def by_row() -> dict[int, list[str]]:
    """Names of tests by row: collected by another process, since this one may be a test run itself."""
    program = [sys.executable, "-P", "-m", "tests.security.threats", "collect"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(program, cwd=ROOT, env=kept | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)  # noqa: PLW1510
    assert done.returncode == 0, done.stdout + done.stderr
    rows: dict[int, list[str]] = defaultdict(list)
    for line in done.stdout.splitlines():
        if line.startswith(FOUND):
            _, row, name = line.split(" ", 2)
            if name not in rows[int(row)]:
                rows[int(row)].append(name)
    return dict(rows)


def faults(tests: dict[int, list[str]]) -> list[str]:
    """Rows with neither a test nor a reason, or with both, and numbers that are no row's."""
    rows = range(1, len(THREATS) + 1)
    found = [f"row {row} has neither a test nor a reason" for row in rows if row not in WITHOUT_A_TEST | tests]
    found += [f"row {row} has tests: take its reason away" for row in rows if row in WITHOUT_A_TEST and row in tests]
    return found + [f"there is no row {row}" for row in sorted(WITHOUT_A_TEST | tests) if row not in rows]


def render(tests: dict[int, list[str]]) -> str:
    return HEADER + "".join(
        f"| {row} | {threat} | {_cell(tests.get(row, []), WITHOUT_A_TEST.get(row, ''))} |\n"
        for row, threat in enumerate(THREATS, start=1)
    )


def _cell(tests: list[str], reason: str) -> str:
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in sorted(tests):
        file, _, name = test.partition("::")
        by_file[file].append(f"`{name.replace('::', '.')}`")
    listed = "; ".join(f"{file}: {', '.join(names)}" for file, names in by_file.items())
    return listed or f"*none:* {reason}"


def _collect() -> int:
    # Of all tests, also those that the default run leaves out.
    options = ["--collect-only", "-qq", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain"]
    return int(pytest.main([*options, "--strict-markers", *_carriers()], plugins=[Finder()]))


def _carriers() -> list[str]:
    """Files of tests with the mark, or with a suite that has it: the others take long to import."""
    texts = {path: path.read_text() for path in sorted((ROOT / "tests").rglob("*.py"))}
    marked = {path for path, text in texts.items() if "mark.threat(" in text}
    suites = [f"from tests.conformance.{path.stem} import" for path in marked if path.stem.endswith("_suite")]
    carry = [path for path, text in texts.items() if path in marked or any(suite in text for suite in suites)]
    return [str(path) for path in carry if path.name.startswith("test_")]


if __name__ == "__main__":
    if sys.argv[1:] == ["collect"]:
        sys.exit(_collect())
    PATH.write_text(render(by_row()))
