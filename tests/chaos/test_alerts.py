"""What alerts are for is done to a running Daira, before a real Prometheus: each fires, and is over when it is mended.

Run: ./daira test -m prometheus tests/chaos/test_alerts.py -n0
"""

import http.server
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from typing_extensions import override

from app.adapters.postgres.engine import administer
from tests.support.api_keys import new_key
from tests.support.databases import Cloned
from tests.support.ports import free_port, free_ports
from tests.support.prometheus import Prometheus, hurried, prometheus
from tests.support.sample_documents import Sheet, drawn, pdf
from tests.support.service import HEALTH, answers, command, environment, upload, wait_until

pytestmark = [pytest.mark.prometheus, pytest.mark.slow, pytest.mark.timeout(600)]

SOON = 150
"""Seconds for an alert to fire or to be over: on a busy machine a look at the table is up to a minute old."""

SPARE = "spare"
"""A second worker, which Prometheus does not know."""

ONE_LETTER = pdf(Sheet(lines=("Dear Sir",)))
LOST = """
insert into daira.jobs (tenant_id, id, kind, webhook_id, run_after, ring_after)
values ('acme', gen_random_uuid(), 'webhook', gen_random_uuid(), now() - interval '1 hour', now() - interval '1 hour')
"""


@dataclass(kw_only=True)
class Site:
    """A web process, and workers that come and go, each at its own port."""

    cloned: Cloned
    folder: Path
    settings: dict[str, str]
    ports: dict[str, int]
    api_key: str = ""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, **settings: str) -> None:
        role = "worker" if name == SPARE else name
        ours = self.settings | {"DAIRA_ROLE": role, "DAIRA_PORT": str(self.ports[name])} | settings
        self.processes[name] = subprocess.Popen(command("serve"), cwd=self.folder, env=environment(**ours))
        wait_until(lambda: answers(f"http://127.0.0.1:{self.ports[name]}{HEALTH}"), seconds=120)

    def kill(self, role: str) -> None:
        """As the kernel does it for want of memory."""
        self.processes[role].kill()
        self.processes[role].wait(timeout=30)

    def pause(self, name: str) -> None:
        """As a hypervisor does it, without asking."""
        self.processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGCONT)

    def stop(self, role: str) -> None:
        self.processes[role].terminate()
        self.processes[role].wait(timeout=60)

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.api_key}"}
        url = f"http://127.0.0.1:{self.ports['web']}"
        return httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False)


@contextmanager
def open_site(cloned: Cloned, folder: Path, **settings: str) -> Iterator[Site]:
    """Acme is there, and its key; no process yet."""
    ours = {
        "DAIRA_DATABASE_URL": cloned.app_url,
        "DAIRA_BLOB_URL": (folder / "blobs").as_uri(),
        "DAIRA_LEASE_SECONDS": "3",
        "DAIRA_SWEEP_SECONDS": "1",
        "DAIRA_LOG_LEVEL": "error",
    } | settings
    ports = dict(zip(["web", "worker", SPARE], free_ports(3), strict=True))
    site = Site(cloned=cloned, folder=folder, settings=ours, ports=ports)
    site.api_key = new_key(cloned.app_url)
    try:
        yield site
    finally:
        for process in site.processes.values():
            process.kill()
            process.wait(timeout=60)


@contextmanager
def watched(site: Site, **thresholds: tuple[str, str]) -> Iterator[Prometheus]:
    folder = site.folder / "prometheus"
    folder.mkdir()
    targets = [port for name, port in site.ports.items() if name != SPARE]
    with prometheus(folder, rules=hurried(**thresholds), targets=targets) as watching:
        yield watching


def fires(watching: Prometheus, *names: str, seconds: float = SOON) -> None:
    wait_until(lambda: set(names) <= watching.firing(), seconds=seconds)


def over(watching: Prometheus, *names: str, seconds: float = SOON) -> None:
    wait_until(lambda: not set(names) & watching.firing(), seconds=seconds)


def long_job(client: httpx.Client) -> str:
    (job,) = upload(client, pdf(*(Sheet(image=drawn(f"Page {number}")) for number in range(40))))["jobs"]
    identity: str = job["id"]
    return identity


def becomes(client: httpx.Client, job: str, **wanted: object) -> None:
    wait_until(lambda: wanted.items() <= client.get(f"/v1/jobs/{job}").json().items(), seconds=60)


def test_no_worker_then_one_that_is_killed_at_work(cloned: Cloned, folder: Path) -> None:
    with (
        open_site(cloned, folder) as site,
        watched(site, DairaWorkLate=("> 600", "> 3")) as watching,
        site.client() as client,
    ):
        site.start("web")
        job = long_job(client)
        fires(watching, "DairaWorkLate", "DairaDown")
        site.start("worker")
        becomes(client, job, state="claimed")
        site.kill("worker")
        over(watching, "DairaWorkLate")
        fires(watching, "DairaDown", "DairaJobsStuck")
        site.start("worker")
        fires(watching, "DairaWorkersLost")
        over(watching, "DairaDown", "DairaJobsStuck", "DairaWorkersLost")


def test_a_worker_is_paused_until_another_has_its_job(cloned: Cloned, folder: Path) -> None:
    with (
        open_site(cloned, folder) as site,
        watched(site, DairaLeasesLost=("> 3", "> 0")) as watching,
        site.client() as client,
    ):
        for name in ("web", "worker", SPARE):
            site.start(name)
        site.pause(SPARE)
        over(watching, "DairaDown", "DairaUnseen")
        job = long_job(client)
        becomes(client, job, state="claimed")
        site.pause("worker")
        site.resume(SPARE)
        becomes(client, job, attempts=2)
        site.resume("worker")
        fires(watching, "DairaLeasesLost")
        over(watching, "DairaLeasesLost")


async def test_the_database_is_away(cloned: Cloned, folder: Path) -> None:
    name = urlsplit(cloned.admin_url).path[1:]
    allowed = f"alter database {name} allow_connections"
    thresholds = {
        "DairaLoopSilent": ("> 180", "> 10"),
        # The other one has its hour between two passes.
        "DairaCareSilent": ('{loop=~"purge|upkeep"} > 86400', '{loop="purge"} > 20'),
    }
    with (
        open_site(cloned, folder, DAIRA_PURGE_SECONDS="2") as site,
        watched(site, **thresholds) as watching,
        site.client() as client,
    ):
        site.start("web")
        site.start("worker")
        over(watching, "DairaDown", "DairaUnseen")
        async with administer(cloned.admin_url, database="postgres") as admin:
            await admin.execute(f"{allowed} false")
            await admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'daira_app' and datname = $1",
                name,
            )
            try:
                assert client.get("/v1/me").status_code == 503
                fires(watching, "DairaUnseen", "DairaLoopSilent", "DairaCareSilent")
                assert client.get("/v1/me").status_code == 503
                fires(watching, "DairaErrors")
            finally:
                await admin.execute(f"{allowed} true")
        over(watching, "DairaUnseen", "DairaLoopSilent", "DairaCareSilent", "DairaErrors")


def test_the_queue_is_away(cloned: Cloned, folder: Path) -> None:
    nobody = free_port()
    with open_site(cloned, folder) as site, watched(site) as watching, site.client() as client:
        site.start("web", DAIRA_QUEUE_URL=f"redis://127.0.0.1:{nobody}/0")
        over(watching, "DairaUnseen")
        upload(client, ONE_LETTER)
        fires(watching, "DairaDoorbellsFail")
        over(watching, "DairaDoorbellsFail")


async def test_a_snapshot_is_held_and_vacuum_waits_for_it(cloned: Cloned, folder: Path) -> None:
    thresholds = {
        "DairaSnapshotHeld": ("> 1800", "> 5"),
        "DairaRowsDead": ("> 100000", "> 100"),
    }
    with open_site(cloned, folder) as site, watched(site, **thresholds) as watching:
        async with administer(cloned.admin_url) as admin:
            await admin.execute("alter table daira.jobs set (autovacuum_enabled = off)")
            for _ in range(200):
                await admin.execute(LOST.replace("- interval '1 hour'", "+ interval '1 hour'"))
            async with administer(cloned.app_url) as holder, holder.transaction(isolation="repeatable_read"):
                await holder.fetch("select 1")
                await admin.execute("update daira.jobs set rings = 1")
                await admin.execute("vacuum daira.jobs")
                site.start("web")
                fires(watching, "DairaSnapshotHeld", "DairaRowsDead")
            await admin.execute("vacuum daira.jobs")
        over(watching, "DairaSnapshotHeld", "DairaRowsDead")


async def test_the_scout_has_lost_its_policy(cloned: Cloned, folder: Path) -> None:
    with open_site(cloned, folder) as site, watched(site) as watching:
        async with administer(cloned.owner_url) as owner, administer(cloned.admin_url) as admin:
            await owner.execute("alter policy scout_live on daira.jobs using (false)")
            await admin.execute(LOST)
            site.start("worker")
            fires(watching, "DairaScoutBlind")
            await owner.execute("alter policy scout_live on daira.jobs using (state in ('queued', 'claimed'))")
        over(watching, "DairaScoutBlind")


def test_receivers_of_webhooks_are_gone(cloned: Cloned, folder: Path) -> None:
    with (
        receiving(410) as gone,
        receiving(500) as ill,
        open_site(cloned, folder, DAIRA_WEBHOOK_ALLOW_PRIVATE="true") as site,
        watched(site) as watching,
        site.client() as client,
    ):
        site.start("web")
        site.start("worker")
        over(watching, "DairaDown", "DairaUnseen")
        for url in (gone, ill):
            assert client.post("/v1/webhooks", json={"url": url, "events": ["job.done"]}).status_code == 201
        upload(client, ONE_LETTER)
        fires(watching, "DairaWebhooksDisabled", "DairaDeliveriesFail")
        over(watching, "DairaWebhooksDisabled", "DairaDeliveriesFail")


def test_purges_leave_what_they_doubt(cloned: Cloned, folder: Path) -> None:
    with (
        open_site(cloned, folder, DAIRA_PURGE_SECONDS="60") as site,
        watched(site) as watching,
    ):
        blobs = folder / "blobs" / "acme"
        blobs.mkdir(parents=True)
        for number in range(30):
            path = blobs / f"019ad0a0-0000-7000-8000-{number:012}"
            path.write_bytes(b"of nobody")
            os.utime(path, (0, 0))
        site.start("worker")
        fires(watching, "DairaPurgeFails")
        for path in blobs.iterdir():
            path.unlink()
        over(watching, "DairaPurgeFails")


@contextmanager
def receiving(status: int) -> Iterator[str]:
    class Answering(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        @override
        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/hook"
        server.shutdown()
        thread.join()
