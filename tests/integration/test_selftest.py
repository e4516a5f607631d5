"""`daira selftest` on deployments that are sound: it passes, and nothing is left of it."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from app.adapters.postgres.engine import PostgresEngine, administer
from app.adapters.postgres.isolation.probe import PostgresIsolationProbe
from app.domain.errors import Conflict
from app.domain.selftest import new_tenant
from app.selftest.run import CHECKS
from tests.support.databases import Cloned
from tests.support.pgbouncer import in_front_of
from tests.support.postgres_rig import TENANT_TABLES, postgres_rig
from tests.support.selftests import TABLES, environment_of, failed, find, rows_of, settings_of
from tests.support.service import command, environment, run
from tests.support.valkey import Valkey, running_valkey

WITH_A_WORKER = {check.name for check in CHECKS if check.needs_worker}


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with running_valkey() as valkey:
        yield valkey


async def test_a_deployment_of_separate_processes_passes_and_nothing_is_left_of_it(
    cloned: Cloned, engine: PostgresEngine, folder: Path, valkey: Valkey
) -> None:
    """Its worker has Redis for a queue, and sweeps once an hour: an idle one looks for lost bells all the same."""
    ours = environment_of(cloned, folder) | {"DAIRA_QUEUE_URL": valkey.url}
    await _work_of_somebody(cloned, engine)
    before = await rows_of(cloned)
    with _worker(folder, DAIRA_SWEEP_SECONDS="3600", **ours):
        done = await asyncio.to_thread(run, "selftest", "--json", "--timeout", "50", cwd=folder, **ours)
    printed = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert printed["ok"]
    assert [check["verdict"] for check in printed["checks"]] == ["passed"] * (len(CHECKS) + 3)
    assert await rows_of(cloned) == before
    assert os.listdir(folder / "blobs") == []  # noqa: PTH208 - nothing to wait for


async def test_without_a_worker_it_says_so_and_looks_at_what_needs_none(cloned: Cloned, folder: Path) -> None:
    done = await asyncio.to_thread(run, "selftest", "--timeout", "1", cwd=folder, **environment_of(cloned, folder))
    lines = {line[2:18].strip(): line[18:] for line in done.stdout.splitlines()}
    assert done.returncode == 1
    assert lines["delivery"].startswith("no worker took the job within 1 s: is one running, with lane ocr and ")
    assert done.stdout.count("✗") == 1
    assert {name for name, line in lines.items() if line == "needs a worker, see delivery"} == WITH_A_WORKER
    assert await rows_of(cloned) == dict.fromkeys(TABLES, 0)


async def test_two_that_are_stopped_in_the_middle_clean_up_all_the_same(cloned: Cloned, folder: Path) -> None:
    stops = {signal.SIGINT: 130, signal.SIGTERM: 143}
    with ExitStack() as stack:
        processes = [stack.enter_context(_waiting(cloned, folder)) for _ in stops]
        async with asyncio.timeout(90):
            while (await rows_of(cloned))["doorbells"] < len(stops):
                await asyncio.sleep(0.05)
        for process, (how, status) in zip(processes, stops.items(), strict=True):
            process.send_signal(how)
            printed, _ = await asyncio.to_thread(process.communicate, timeout=60)
            assert process.returncode == status, printed.decode()
            assert "✓ clean-up" in printed.decode()
    assert await rows_of(cloned) == dict.fromkeys(TABLES, 0)


@contextmanager
def _waiting(cloned: Cloned, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A selftest that no worker will answer."""
    ours = environment(**environment_of(cloned, folder))
    # Longer than two programs take to start on a busy machine: the first must still be at it when the second is.
    patient = command("selftest", "--timeout", "120")
    with subprocess.Popen(patient, cwd=folder, env=ours, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_an_old_schema_is_told_before_anything_is_made(cloned: Cloned, tmp_path: Path) -> None:
    async with administer(cloned.owner_url) as owner:
        await owner.execute("update daira.alembic_version set version_num = '20261130_0900'")
    with pytest.raises(Conflict, match="the schema is at 20261130_0900"):
        await find(settings_of(cloned, tmp_path))
    assert await rows_of(cloned) == dict.fromkeys(TABLES, 0)


async def test_what_a_killed_selftest_left_is_removed_a_day_later_and_nothing_that_only_looks_like_it(
    cloned: Cloned, engine: PostgresEngine, tmp_path: Path
) -> None:
    rig = postgres_rig(cloned, engine)
    left, young, busy, keyed = [await rig.tenant(new_tenant()) for _ in range(4)]
    team = await rig.tenant("selftest-team")
    await rig.document(busy)
    await rig.key(keyed)
    await PostgresIsolationProbe(engine).furnish(left)
    async with administer(cloned.admin_url) as admin:
        await admin.execute(
            "update daira.tenants set created_at = now() - interval '25 hours' where tenant_id <> $1", young
        )
    found = await find(settings_of(cloned, tmp_path))
    assert "1 tenant(s) that a killed one had left" in found["clean-up"].seen
    assert set(await rig.sweeps.tenants(after=None, limit=10)) == {young, busy, keyed, team}


@pytest.mark.pgbouncer
async def test_it_passes_through_pgbouncer(cloned: Cloned, tmp_path: Path) -> None:
    with in_front_of(cloned.app_url) as url:
        settings = settings_of(cloned, tmp_path, database_url=url, listen_url=cloned.app_url)
        found = await find(settings, worker=settings, patience=5)
    assert failed(found) == set()


async def test_every_tenant_table_gets_a_row_to_try_the_wall_with(cloned: Cloned, engine: PostgresEngine) -> None:
    tenant = await postgres_rig(cloned, engine).tenant(new_tenant())
    wall = PostgresIsolationProbe(engine)
    await wall.furnish(tenant)
    assert await wall.tables() == sorted(table.name for table in TENANT_TABLES)
    assert await rows_of(cloned) == dict.fromkeys(TABLES, 1) | {"doorbells": 0}


@contextmanager
def _worker(folder: Path, **settings: str) -> Iterator[None]:
    """`daira serve` as a worker."""
    ours = environment(DAIRA_ROLE="worker", DAIRA_PORT="0", DAIRA_OCR="null", DAIRA_LOG_LEVEL="error", **settings)
    process = subprocess.Popen(command("serve"), cwd=folder, env=ours)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


async def _work_of_somebody(cloned: Cloned, engine: PostgresEngine) -> None:
    """Work of another tenant, which is not to be touched."""
    rig = postgres_rig(cloned, engine)
    tenant = await rig.tenant()
    document = await rig.document(tenant)
    await rig.enqueue(tenant, document_id=document.id, run_in=timedelta(hours=1))
