"""An upgrade and a rollback while documents are uploaded: no request fails, no job fails, and none runs twice.

The former version is the code of the commit that brought the baseline migration, with today's packages. The new version
is today's code with one more migration, made up, so that there always is one to run: it adds columns, an index and a
table, and replaces a function. docs/upgrade.md says the same in words.

Run it: ./daira test -m slow tests/chaos/test_upgrade.py -n0 -s
"""

import asyncio
import io
import json
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from app.adapters.postgres.engine import administer
from app.adapters.postgres.isolation.roles import APP, OWNER, make_roles
from app.embedded.server import EmbeddedPostgres
from tests.chaos.progress import say, table
from tests.support.databases import Cloned
from tests.support.folders import ROOT, open_folder
from tests.support.next_release import REVISION, add_migration
from tests.support.service import environment, serving_again, using, wait_until

BASELINE = "alembic/versions/20261130_2300_baseline.py"
"""The former version is the commit that added this file. To be the tag of the last release, once there is one."""

CODE = ("app", "tests")
"""What the new version is made of, beside its migrations."""

CLIENTS = 3
WORKERS = 2
AT_EACH_STAGE = 10
"""Uploads of each client, at least."""

ROWS = """
select state, attempts, failures, expiries, releases,
    (select array_agg(outcome order by attempt) from daira.job_attempts a where a.job_id = j.id) as history
from daira.jobs j
"""
LIVE = "select count(*) from daira.jobs where state in ('queued', 'claimed')"


@dataclass(frozen=True, kw_only=True)
class Version:
    code: Path
    server: Cloned
    folder: Path

    def settings(self, **settings: str) -> dict[str, str]:
        return {
            "PYTHONPATH": str(self.code),
            "DAIRA_DATABASE_URL": self.server.app_url,
            "DAIRA_MIGRATION_DATABASE_URL": self.server.owner_url,
            "DAIRA_BLOB_URL": (self.folder / "blobs").as_uri(),
            **settings,
        }

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "app", *arguments],
            cwd=self.folder,
            env=environment(**self.settings()),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @contextmanager
    def web(self, api_key: str) -> Iterator[str]:
        """In production, so that its guard has looked at the schema."""
        ours = self.settings(DAIRA_ENV="production", DAIRA_ROLE="web", DAIRA_REQUESTS_PER_MINUTE="100000")
        with serving_again(self.server, self.folder, api_key=api_key, **ours) as service:
            assert service.process.poll() is None
            yield service.url
        assert service.process.returncode == 0

    def worker(self) -> subprocess.Popen[bytes]:
        """At work when this returns."""
        ours = self.settings(
            EXECUTIONS=str(self.folder / "executions"),
            WORK_SECONDS="1.5",
            DAIRA_ROLE="worker",
            DAIRA_OCR="null",
            DAIRA_LANES="ocr=16",
            DAIRA_GRACE_SECONDS="1",
            DAIRA_SWEEP_SECONDS="1",
        )
        process = subprocess.Popen([sys.executable, "-m", "tests.chaos.worker"], cwd=self.code, env=environment(**ours))
        up = self.folder / "executions" / f"{process.pid}.up"
        wait_until(lambda: up.exists() or process.poll() is not None, seconds=120)
        assert process.poll() is None
        return process


@dataclass(kw_only=True)
class Uploading:
    """Clients that upload one document after the other, each to the next of the addresses."""

    api_key: str
    urls: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=lambda: [0] * CLIENTS)
    refused: list[str] = field(default_factory=list)
    enough: threading.Event = field(default_factory=threading.Event)

    def go_on(self) -> None:
        """Return when every client has uploaded some more, each begun after this was called."""
        before = list(self.counts)
        wait_until(
            lambda: all(now > then + AT_EACH_STAGE for now, then in zip(self.counts, before, strict=True)), seconds=120
        )
        assert self.refused == []

    def upload(self, client: int) -> None:
        with httpx.Client(headers={"Authorization": f"Bearer {self.api_key}"}, timeout=60, trust_env=False) as http:
            while not self.enough.wait(0.05):
                number = self.counts[client]
                url = self.urls[number % len(self.urls)]
                file = {"file": ("scan.txt", f"Scan {number} of {client}".encode())}
                try:
                    answer = http.post(f"{url}/v1/documents", files=file)
                    if answer.status_code != 202:
                        self.refused.append(f"{answer.status_code} {answer.text}")
                except httpx.HTTPError as error:
                    self.refused.append(f"{url}: {error!r}")
                self.counts[client] += 1


@contextmanager
def uploading(uploads: Uploading) -> Iterator[None]:
    threads = [threading.Thread(target=uploads.upload, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        uploads.enough.set()
        for thread in threads:
            thread.join(timeout=90)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_an_upgrade_and_a_rollback_under_uploads_fail_nothing_and_run_nothing_twice() -> None:
    with ExitStack() as stack:
        folder = stack.enter_context(open_folder())
        former_code = _former_code(folder / "former")
        server = stack.enter_context(_server(folder / "pg"))
        (folder / "executions").mkdir()
        former = Version(code=former_code, server=server, folder=folder)
        new = Version(code=_new_code(folder / "new"), server=server, folder=folder)
        former.run("migrate")
        former.run("tenant", "create", "acme")
        cluster = Cluster(uploads=Uploading(api_key=former.run("key", "create", "acme")))
        stack.callback(cluster.stop)

        cluster.serve(former)
        cluster.workers = [former.worker() for _ in range(WORKERS)]
        with uploading(cluster.uploads):
            cluster.stage("the former version")
            assert new.run("migrate").endswith(REVISION)
            cluster.stage("its schema is the new one")
            cluster.replace_workers(former)
            cluster.stage("its workers started anew there")
            for version, name in ((new, "upgraded"), (former, "rolled back"), (new, "upgraded again")):
                cluster.replace_workers(version)
                cluster.stage(f"workers {name}")
                cluster.serve(version)
                cluster.stage(f"web {name}")
        asyncio.run(_until_all_have_ended(server))
        logs = (folder / "executions").glob("*.jsonl")
        lines = [json.loads(line) for log in logs for line in log.read_bytes().splitlines()]
        asyncio.run(_prove(server, cluster.uploads, Counter(line["job"] for line in lines if line["event"] == "end")))


@dataclass(kw_only=True)
class Cluster:
    uploads: Uploading
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    web: ExitStack = field(default_factory=ExitStack)

    def stage(self, name: str) -> None:
        self.uploads.go_on()
        say(f"{name}: {sum(self.uploads.counts)} uploads so far")

    def serve(self, version: Version) -> None:
        """Beside the other version for a while, then alone."""
        before, self.web = self.web, ExitStack()
        url = self.web.enter_context(version.web(self.uploads.api_key))
        if self.uploads.urls:
            self.uploads.urls = [*self.uploads.urls, url]
            self.uploads.go_on()
            self.uploads.urls = [url]
            self.uploads.go_on()
        self.uploads.urls = [url]
        before.close()

    def replace_workers(self, version: Version) -> None:
        """One by one: its successor is at work before it is told to stop."""
        for leaving in list(self.workers):
            self.workers.append(version.worker())
            self.workers.remove(leaving)
            leaving.send_signal(signal.SIGTERM)
            assert leaving.wait(timeout=60) == 0

    def stop(self) -> None:
        self.web.close()
        for worker in self.workers:
            worker.terminate()
            worker.wait(timeout=60)


def _former_code(folder: Path) -> Path:
    added = _git("log", "--diff-filter=A", "--format=%H", "--max-count=1", "--", BASELINE).decode().strip()
    if not added:
        pytest.skip("the commit of the baseline is not in this checkout")
    with tarfile.open(fileobj=io.BytesIO(_git("archive", added))) as files:
        files.extractall(folder, filter="data")
    return folder


def _git(*arguments: str) -> bytes:
    git = shutil.which("git")
    if git is None:
        pytest.skip("there is no git here to take the former version from")
    done = subprocess.run([git, *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"the former version is not in this checkout: {done.stderr.decode().strip()}")
    return done.stdout


def _new_code(folder: Path) -> Path:
    for name in CODE:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    add_migration(folder)
    return folder


@contextmanager
def _server(home: Path) -> Iterator[Cloned]:
    server = EmbeddedPostgres(home, grace=timedelta())
    server.start()
    try:
        admin, owner, app = (server.url(user=user, database="daira") for user in ("postgres", OWNER, APP))
        asyncio.run(make_roles(server.url(), owner_url=owner, app_url=app))
        yield Cloned(admin_url=admin, owner_url=owner, app_url=app)
    finally:
        server.close()
        wait_until(lambda: not using(home), seconds=30)


async def _until_all_have_ended(server: Cloned) -> None:
    async with asyncio.timeout(120), administer(server.admin_url) as admin:
        while await admin.fetchval(LIVE):
            await asyncio.sleep(0.1)


async def _prove(server: Cloned, uploads: Uploading, completed: Counter[str]) -> None:
    async with administer(server.admin_url) as admin:
        rows = await admin.fetch(ROWS)
    released = sum(row["releases"] for row in rows)
    table({"jobs": len(rows), "given back by workers that stopped": released})
    assert uploads.refused == []
    assert len(rows) == sum(uploads.counts) == len(completed)
    assert Counter(row["state"] for row in rows) == {"done": len(rows)}
    assert {(row["failures"], row["expiries"]) for row in rows} == {(0, 0)}
    assert {tuple(row["history"]) for row in rows} <= {("release",) * n + ("done",) for n in range(5)}
    assert set(completed.values()) == {1}
    # Otherwise nothing was at stake.
    assert released
