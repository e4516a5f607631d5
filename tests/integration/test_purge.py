"""The purge of the program itself: by hand, and by a worker."""

import os
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from app.adapters.postgres.engine import PostgresEngine
from app.domain.ids import TenantId, uuid7
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import Rig
from tests.support.service import run, serving, wait_until

ACME = TenantId("acme")
DAY = 86_400


@pytest.fixture
async def rig(cloned: Cloned, engine: PostgresEngine) -> Rig:
    rig = postgres_rig(cloned, engine)
    await rig.tenant(ACME)
    return rig


def a_file(path: Path, *, days: float = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"Dear Sir")
    os.utime(path, (0, time.time() - days * DAY))
    return path


async def a_document(rig: Rig, folder: Path, *, days: int) -> Path:
    document = await rig.document(ACME, created_at=datetime.now(UTC) - timedelta(days=days))
    return a_file(folder / str(document.id), days=days)


def purge(cloned: Cloned, folder: Path, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    ours = {"DAIRA_DATABASE_URL": cloned.app_url, "DAIRA_BLOB_URL": (folder / "blobs").as_uri(), **settings}
    return run("purge", *options, cwd=folder, **ours)


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines() if "acme" in line]


async def test_a_purge_by_hand_removes_what_it_counted_before(rig: Rig, cloned: Cloned, folder: Path) -> None:
    acme = folder / "blobs" / "acme"
    old, kept = await a_document(rig, acme, days=40), await a_document(rig, acme, days=20)
    orphan, young = a_file(acme / str(uuid7())), a_file(acme / str(uuid7()), days=0.9)
    part = a_file(acme / f".{uuid7()}.{'0' * 32}.part")
    other = a_file(folder / "blobs" / "nobody" / str(uuid7()))

    counted = purge(cloned, folder, "--dry-run", DAIRA_RETENTION_DAYS="30")
    assert counted.returncode == 0, counted.stderr
    assert "a dry run" in counted.stdout
    assert all(path.exists() for path in (orphan, part, old))

    done = purge(cloned, folder, DAIRA_RETENTION_DAYS="30")
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout) == rows(counted.stdout) == [["│", "acme", *["│", "1"] * 3, *["│", "0"] * 3, "│"]]
    assert sorted(path.name for path in acme.iterdir()) == sorted([kept.name, young.name])
    assert other.exists()
    async with rig.database.begin(ACME) as tx:
        assert [str(document.id) for document in await tx.documents.newest(limit=10)] == [kept.name]


async def test_many_orphans_are_removed_only_when_told(rig: Rig, cloned: Cloned, folder: Path) -> None:
    acme = folder / "blobs" / "acme"
    old = await a_document(rig, acme, days=10_000)
    for _ in range(30):
        a_file(acme / str(uuid7()))
    doubted = purge(cloned, folder)
    assert "daira purge --even-many" in doubted.stdout
    assert "orphans_left" in doubted.stderr
    assert len(list(acme.iterdir())) == 31
    assert "--even-many" not in purge(cloned, folder, "--even-many").stdout
    assert [path.name for path in acme.iterdir()] == [old.name]


def test_a_worker_purges_by_time_and_tells_of_it(cloned: Cloned, folder: Path) -> None:
    orphan = a_file(folder / "blobs" / "acme" / str(uuid7()))
    with serving(cloned, folder, DAIRA_ROLE="worker", DAIRA_PURGE_SECONDS="1", DAIRA_OCR="null") as worker:
        wait_until(lambda: not orphan.exists(), seconds=30)

        def told() -> str:
            return httpx.get(f"{worker.url}/metrics", trust_env=False, timeout=30).text

        wait_until(lambda: 'daira_purged_total{what="orphan"} 1.0' in told(), seconds=30)
        assert 'daira_loop_last_success_seconds{loop="purge"}' in told()


def test_a_store_that_is_away_is_told_in_a_line(cloned: Cloned, folder: Path) -> None:
    (folder / "blobs").write_bytes(b"")
    failed = purge(cloned, folder)
    assert failed.returncode == 1
    assert "the blob store failed" in failed.stderr
    assert "Traceback" not in failed.stderr
