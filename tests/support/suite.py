"""How the suite is run: on how many processes, the longest files first, and which part of it is the quick one."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.folders import ROOT

MARKERS = ("slow", "pgbouncer", "prometheus", "image", "real_llm")
"""Tests that have a command of their own: pyproject.toml says which, beside each."""

QUICK = (
    "tests/unit",
    "tests/architecture",
    "tests/conformance/test_memory.py",
    # A thin slice of the real database: claims and leases, and the isolation of tenants.
    "tests/conformance/test_postgres.py::TestPostgresLeases",
    "tests/security/test_wall.py",
)
"""What `./daira test quick` runs."""

WORKERS_PER_CORE = 2.5
"""The tests wait for servers, leases and other processes for half of their time: measured on two cores."""

QUICK_WORKERS_PER_CORE = 1.5
"""It waits less, and what each process reads before its first test is a good part of it."""

MEMORY_OF_A_WORKER = 1.5 * 2**30
"""Bytes: the process itself, and the servers and readers that its test has started."""

SECONDS = {
    "tests/conformance/test_postgres.py": 73,
    "tests/integration/test_ocr_pages.py": 69,
    "tests/integration/test_openapi_fuzz.py": 54,
    "tests/conformance/test_s3.py": 52,
    "tests/integration/test_up.py": 42,
    "tests/integration/test_embedded_postgres.py": 41,
    "tests/integration/test_docs.py": 40,
    "tests/conformance/test_job_machine.py": 39,
    "tests/integration/test_selftest.py": 37,
    "tests/integration/test_lost_bells.py": 36,
    "tests/security/test_breaches.py": 33,
    "tests/integration/test_recognition_children.py": 29,
    "tests/conformance/test_sqs.py": 28,
    "tests/integration/test_idempotency.py": 26,
    "tests/chaos/test_rolling.py": 25,
    "tests/integration/test_outputs.py": 24,
    "tests/integration/test_events.py": 21,
    "tests/integration/test_searchable.py": 20,
    "tests/integration/test_client.py": 19,
    "tests/integration/test_resumption.py": 18,
    "tests/integration/test_newer_rows.py": 18,
    "tests/integration/test_upload_command.py": 17,
    "tests/integration/test_selftest_broken.py": 17,
    "tests/integration/test_upload_stopped.py": 16,
    "tests/chaos/test_storm.py": 16,
    "tests/integration/test_format_fuzz.py": 15,
    "tests/unit/test_job_errors.py": 14,
    "tests/integration/test_download.py": 14,
    "tests/chaos/behaviours/test_leases.py": 14,
    "tests/integration/documents/test_bombs.py": 14,
    "tests/integration/test_text_formats.py": 13,
    "tests/integration/test_waiting_clients.py": 12,
    "tests/unit/test_whatever_a_model_says.py": 12,
    "tests/security/test_every_route.py": 11,
    "tests/integration/test_large_uploads.py": 10,
    "tests/integration/test_client_routes.py": 10,
    "tests/integration/documents/test_page_geometry.py": 9,
    "tests/security/test_tokens.py": 9,
    "tests/integration/test_renderer.py": 9,
    "tests/integration/test_on_s3.py": 9,
    "tests/integration/test_search.py": 9,
    "tests/unit/test_clumsy_commands.py": 8,
    "tests/unit/test_llm_client.py": 8,
    "tests/chaos/behaviours/test_stops.py": 8,
    "tests/conformance/test_s3_scripted.py": 7,
    "tests/integration/test_aws_rights.py": 7,
    "tests/integration/test_production.py": 7,
    "tests/unit/test_scopes.py": 7,
    "tests/unit/test_pagination.py": 7,
    "tests/security/test_slow_clients.py": 7,
    "tests/security/test_cancellation.py": 6,
    "tests/security/test_threats.py": 6,
    "tests/chaos/behaviours/test_writes.py": 6,
}
"""The files that take longest, as measured once: which ones come first depends on it, and nothing else does."""

SECONDS_OF_A_TEST = 0.1
"""For files that are not among them."""


def workers(*, quick: bool) -> int:
    """Processes for `-n auto`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    wanted = cores * (QUICK_WORKERS_PER_CORE if quick else WORKERS_PER_CORE)
    return max(1, min(round(wanted), int(memory // MEMORY_OF_A_WORKER)))


def longest_first(items: list[pytest.Item]) -> None:
    """Classes, and the functions of a file, are handed out in this order; the last to begin are soon over."""
    of_file = Counter(_file(item) for item in items)
    of_scope = Counter(_scope(item) for item in items)

    def seconds(item: pytest.Item) -> float:
        known = SECONDS.get(_file(item))
        each = known / of_file[_file(item)] if known else SECONDS_OF_A_TEST
        return each * of_scope[_scope(item)]

    items.sort(key=lambda item: (-seconds(item), _scope(item)))


def markers_left_out(items: Sequence[pytest.Item], expression: str) -> Counter[str]:
    """How many tests of each marker the expression takes out that has `not` before it."""
    markers = [marker for marker in MARKERS if f"not {marker}" in expression]
    return Counter(next((marker for marker in markers if item.get_closest_marker(marker)), "") for item in items)


def folders_left_out() -> Iterator[str]:
    """What the quick suite has nothing of, or not all."""
    quick = {file for each in QUICK for file in _test_files(each.partition("::")[0])}
    files = Counter(file.parent for file in _test_files("tests"))
    taken = Counter(file.parent for file in quick)
    for folder, count in sorted(files.items()):
        if taken[folder] < count:
            part = f"{count - taken[folder]} of {count} files" if taken[folder] else f"all {count} files"
            yield f"{folder.relative_to(ROOT)}: {part}"


def _test_files(path: str) -> Iterable[Path]:
    whole = ROOT / path
    return [whole] if whole.is_file() else whole.rglob("test_*.py")


def _scope(item: pytest.Item) -> str:
    return item.nodeid.rpartition("::")[0]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
