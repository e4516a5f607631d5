"""The purge of the program itself: by hand, and by a worker."""

import asyncio
import os
import time
from pathlib import Path

import httpx

from app.adapters.postgres.engine import administer
from app.domain.ids import uuid7
from tests.support.databases import Cloned
from tests.support.service import Service, run, serving, upload, wait_until

DAY = 86_400


def a_file(path: Path, *, age: float = 2 * DAY) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"Dear Sir")
    os.utime(path, (0, time.time() - age))
    return path


async def make_old(cloned: Cloned, document_id: str, *, days: int) -> None:
    async with administer(cloned.admin_url) as connection:
        statement = "update daira.documents set created_at = now() - make_interval(days => $2) where id = $1"
        await connection.execute(statement, document_id, days)


def purged(cloned: Cloned, folder: Path, *options: str, **settings: str) -> str:
    ours = {"DAIRA_DATABASE_URL": cloned.app_url, "DAIRA_BLOB_URL": (folder / "blobs").as_uri(), **settings}
    done = run("purge", *options, cwd=folder, **ours)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def documents(web: Service) -> list[str]:
    with web.client() as client:
        return [document["id"] for document in client.get("/v1/documents").json()["data"]]


def test_a_purge_by_hand_removes_what_it_counted_before(cloned: Cloned, folder: Path) -> None:
    acme = folder / "blobs" / "acme"
    with serving(cloned, folder, DAIRA_ROLE="web") as web:
        with web.client() as client:
            old, kept = (upload(client, b"%PDF-1.7 " + text.encode())["id"] for text in ("old", "kept"))
        asyncio.run(make_old(cloned, old, days=40))
        asyncio.run(make_old(cloned, kept, days=20))
        orphan, young = a_file(acme / str(uuid7())), a_file(acme / str(uuid7()), age=60)
        part = a_file(acme / f".{uuid7()}.{'0' * 32}.part")
        other = a_file(folder / "blobs" / "nobody" / str(uuid7()))
        os.utime(acme / kept, (0, time.time() - 20 * DAY))

        counted = purged(cloned, folder, "--dry-run", DAIRA_RETENTION_DAYS="30")
        assert "a dry run" in counted
        assert all(path.exists() for path in (orphan, part, acme / old))
        assert "acme" in counted

        done = purged(cloned, folder, DAIRA_RETENTION_DAYS="30")
        assert [line.split() for line in done.splitlines() if "acme" in line] == [
            line.split() for line in counted.splitlines() if "acme" in line
        ]
        assert documents(web) == [kept]
    assert sorted(path.name for path in acme.iterdir()) == sorted([kept, young.name])
    assert other.exists()
    assert "acme" not in purged(cloned, folder, DAIRA_RETENTION_DAYS="30")


def test_without_a_retention_no_document_goes_and_many_orphans_only_when_told(cloned: Cloned, folder: Path) -> None:
    acme = folder / "blobs" / "acme"
    with serving(cloned, folder, DAIRA_ROLE="web") as web:
        with web.client() as client:
            old = upload(client, b"%PDF-1.7 old")["id"]
        asyncio.run(make_old(cloned, old, days=10_000))
        os.utime(acme / old, (0, 0))
        for _ in range(30):
            a_file(acme / str(uuid7()))
        assert "daira purge --even-many" in purged(cloned, folder)
        assert len(list(acme.iterdir())) == 31
        assert "--even-many" not in purged(cloned, folder, "--even-many")
        assert [path.name for path in acme.iterdir()] == [old]
        assert documents(web) == [old]


def test_a_worker_purges_by_time_and_tells_of_it(cloned: Cloned, folder: Path) -> None:
    orphan = a_file(folder / "blobs" / "acme" / str(uuid7()))
    with serving(cloned, folder, DAIRA_ROLE="worker", DAIRA_PURGE_SECONDS="1", DAIRA_OCR="null") as worker:
        wait_until(lambda: not orphan.exists(), seconds=60)

        def told() -> str:
            return httpx.get(f"{worker.url}/metrics", trust_env=False).text

        wait_until(lambda: 'daira_purged_total{what="orphan"} 1.0' in told(), seconds=30)
        assert 'daira_loop_last_success_seconds{loop="purge"}' in told()
        assert httpx.get(f"{worker.url}/readyz", trust_env=False).is_success


def test_a_store_that_is_away_is_told_in_a_line(cloned: Cloned, folder: Path) -> None:
    (folder / "file").write_bytes(b"")
    blobs = (folder / "file" / "blobs").as_uri()
    failed = run("purge", cwd=folder, DAIRA_DATABASE_URL=cloned.app_url, DAIRA_BLOB_URL=blobs)
    assert failed.returncode == 1
    assert "the blob store failed" in failed.stderr
    assert "Traceback" not in failed.stderr
