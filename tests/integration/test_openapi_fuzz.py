"""The service answers as its OpenAPI document says, whatever it is asked: all of Schemathesis' checks, over real HTTP.

Requests are derived from the document, good ones and bad ones, alone and along its links. What it can't say of a good
request is in `tests.support.fuzz_material`. A stream of events, which has no end, is left at its first id.
"""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.architecture.test_openapi import CONTRACT
from tests.support.databases import Databases
from tests.support.folders import ROOT, open_folder
from tests.support.service import Service, run, serving

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(420)]

EXAMPLES = 10
"""Requests by chance for each operation, beside those that cover each part of its description."""

SLOWEST = 30
"""Seconds for an answer, on a machine that does other things as well; the default is 10."""

PROGRAM = "tests.support.left_streams:app"
SETTINGS = {
    # All requests come from one tenant, and none of them is to be refused for that.
    "DAIRA_REQUESTS_PER_MINUTE": "1000000",
    # A model that is set up and away: its jobs can be asked for, and wait.
    "DAIRA_LLM_BASE_URL": "http://127.0.0.1:9/v1",
    "DAIRA_LLM_MODEL": "any",
    # A receiver that is away, at an address that needs no name server.
    "DAIRA_WEBHOOK_ALLOW_PRIVATE": "true",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(databases: Databases) -> AsyncIterator[Service]:
    async with databases.clone() as cloned:
        with open_folder() as folder, serving(cloned, folder, application=PROGRAM, **SETTINGS) as service:
            yield service


async def test_the_service_does_what_its_document_says(service: Service, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    settings = {"DAIRA_DATABASE_URL": service.database_url, "DAIRA_BLOB_URL": "memory://"}
    made = run("key", "create", "acme", "--scope", "admin", cwd=tmp_path, **settings)
    assert made.returncode == 0, made.stderr
    admin = made.stdout.strip()
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json"),
        *("--header", f"Authorization: Bearer {admin}", "--checks", "all"),
        *("--max-examples", str(EXAMPLES), "--generation-deterministic", "--continue-on-failure"),
        *("--max-response-time", str(SLOWEST), "--request-timeout", "70", "--no-color"),
        *("--report-json-path", str(report)),
    ]
    env = {"SCHEMATHESIS_HOOKS": "tests.support.fuzz_material", "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)  # noqa: ASYNC221 - nothing else runs
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    told: dict[str, Any] = json.loads(report.read_text())
    operations = told["operations"]
    assert operations["tested"] == operations["total"] >= len(CONTRACT)
    assert {phase["status"] for phase in told["phases"].values()} == {"success"}
    # Which ids a run meets is chance, so one that finds no job for an operation says nothing.
    assert {name: found for name, found in told["warnings"].items() if found and name != "missing_test_data"} == {}
