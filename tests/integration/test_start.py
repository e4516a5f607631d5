"""A start tells unsafe settings (78) from a dependency that can't be reached, for which it waits."""

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.adapters.postgres.engine import administer
from app.embedded.server import EmbeddedPostgres
from app.settings import Role
from tests.chaos.servers import OwnServer
from tests.support.databases import Cloned
from tests.support.folders import open_folder
from tests.support.forked import Forked, program
from tests.support.ministack import Ministack
from tests.support.ports import free_port
from tests.support.service import answers, environment, run, using, wait_until
from tests.support.valkey import running_valkey

BACK = 10
"""Seconds after the dependency's return within which the service is ready."""

NOWHERE = "postgresql://daira_app:s3cret@127.0.0.1:1/daira"
AWS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "DAIRA_AWS_REGION": "eu-central-1"}


@dataclass(frozen=True)
class Started:
    process: Forked
    url: str
    stderr: Path

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, trust_env=False, timeout=10)

    def missing(self) -> dict[str, str]:
        named: dict[str, str] = self.get("/readyz").json().get("not_ready", {})
        return named

    def until_it_answers(self) -> None:
        wait_until(lambda: self.process.poll() is not None or answers(f"{self.url}/healthz"), seconds=60)
        assert self.process.poll() is None, self.stderr.read_text()

    def until_ready(self, *, seconds: float = BACK) -> None:
        wait_until(lambda: self.process.poll() is not None or answers(f"{self.url}/readyz"), seconds=seconds)
        assert self.process.poll() is None, self.stderr.read_text()

    def logged(self) -> list[dict[str, Any]]:
        """Every line is JSON."""
        return [json.loads(line) for line in self.stderr.read_text().splitlines()]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


@contextmanager
def started(**settings: str) -> Iterator[Started]:
    """`daira serve` in production, whatever is there and whatever is not."""
    with open_folder() as folder:
        port, stderr = free_port(), folder / "stderr"
        stderr.touch()
        ours = {"DAIRA_ENV": "production", "DAIRA_BLOB_URL": (folder / "blobs").as_uri(), "DAIRA_PORT": str(port)}
        (folder / "blobs").mkdir()
        process = program("serve", cwd=folder, env=environment(**ours | settings), stderr=stderr)
        try:
            yield Started(process, f"http://127.0.0.1:{port}", stderr)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


@asynccontextmanager
async def own_server() -> AsyncIterator[OwnServer]:
    with open_folder() as folder:
        postgres = EmbeddedPostgres(folder / "pg", grace=timedelta(seconds=0))
        server = OwnServer(postgres)
        await server.start()
        await server.prepare()
        try:
            yield server
        finally:
            postgres.close()
            wait_until(lambda: not using(folder), seconds=30)


@pytest.mark.parametrize("role", Role)
async def test_a_database_that_comes_later_is_waited_for(role: Role) -> None:
    async with own_server() as server:
        url = server.cloned.app_url
        await server.kill()
        with started(DAIRA_DATABASE_URL=url, DAIRA_ROLE=role) as service:
            service.until_it_answers()
            assert service.missing() == {"database": "the database can't be reached: nothing listens there"}
            refused = service.get("/v1/documents")
            assert refused.status_code == 503
            assert refused.json()["code"] == "unavailable"
            assert refused.json()["request_id"] == refused.headers["X-Request-ID"]
            assert refused.headers["Retry-After"]
            assert "daira_backlog_up 0.0" in service.get("/metrics").text
            await server.start()
            service.until_ready()
            assert service.get("/v1/documents").status_code == (404 if role is Role.WORKER else 401)
            awaited = [line for line in service.logged() if line["event"] == "dependency_awaited"]
            assert [(line["dependency"], line["level"]) for line in awaited] == [("database", "warning")]
            # Its socket is gone with the server.
            assert awaited[0]["cause"] in {"FileNotFoundError", "ConnectionRefusedError"}
            assert service.stop() == 0


@pytest.mark.parametrize("role", [Role.WEB, Role.WORKER])
def test_a_redis_that_comes_later_is_waited_for(cloned: Cloned, role: Role) -> None:
    with (
        running_valkey() as valkey,
        _stopped(valkey),
        started(DAIRA_DATABASE_URL=cloned.app_url, DAIRA_QUEUE_URL=f"{valkey.url}/0", DAIRA_ROLE=role) as service,
    ):
        service.until_it_answers()
        assert list(service.missing()) == ["queue"]
        assert not [line for line in service.logged() if line["event"] == "worker_started"]
        valkey.start()
        service.until_ready()
        assert service.stop() == 0


@pytest.mark.parametrize("role", [Role.WEB, Role.WORKER])
def test_sqs_and_a_bucket_that_come_later_are_waited_for(cloned: Cloned, role: Role) -> None:
    server = Ministack()
    there = {"DAIRA_QUEUE_URL": "sqs://daira", "DAIRA_BLOB_URL": "s3://daira-documents", **AWS}
    try:
        with started(
            DAIRA_DATABASE_URL=cloned.app_url, DAIRA_AWS_ENDPOINT_URL=server.url, DAIRA_ROLE=role, **there
        ) as service:
            service.until_it_answers()
            wait_until(lambda: sorted(service.missing()) == ["blobs", "queue"], seconds=30)
            server.start()
            wait_until(lambda: list(service.missing()) == ["blobs"], seconds=BACK)
            # The bucket is made after the service that is to use it, as in a compose file.
            assert "create it" in service.missing()["blobs"]
            httpx.put(f"{server.url}/daira-documents", trust_env=False).raise_for_status()
            service.until_ready()
            assert service.stop() == 0
    finally:
        server.close()


def test_whoever_wants_an_end_gets_75() -> None:
    with started(DAIRA_DATABASE_URL=NOWHERE, DAIRA_START_TIMEOUT="1") as service:
        assert service.process.wait(timeout=60) == 75
        (ended,) = [line for line in service.logged() if line["event"] == "start_timed_out"]
        assert ended["not_ready"] == {"database": "the database can't be reached: nothing listens there"}


def test_a_queue_that_stays_away_ends_with_75_too(cloned: Cloned) -> None:
    ours = {"DAIRA_QUEUE_URL": f"redis://127.0.0.1:{free_port()}/0", "DAIRA_START_TIMEOUT": "1"}
    with started(DAIRA_DATABASE_URL=cloned.app_url, **ours) as service:
        assert service.process.wait(timeout=60) == 75


def test_who_waits_stops_at_once_and_well() -> None:
    with started(DAIRA_DATABASE_URL=NOWHERE) as service:
        service.until_it_answers()
        told = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - told < 5


async def test_a_server_without_a_free_connection_is_waited_for() -> None:
    async with own_server() as server, server.refusing():
        with started(DAIRA_DATABASE_URL=server.cloned.app_url) as service:
            service.until_it_answers()
            assert list(service.missing()) == ["database"]
            async with administer(server.cloned.admin_url) as admin:
                await admin.execute("alter role daira_app connection limit -1")
            service.until_ready()


def test_a_login_that_the_server_does_not_know_is_refused_once(cloned: Cloned) -> None:
    unknown = cloned.app_url.replace("daira_app@", "nobody@")
    with started(DAIRA_DATABASE_URL=unknown, DAIRA_DEBUG="true") as service:
        assert service.process.wait(timeout=60) == 78
        (refused,) = service.logged()
        assert refused["event"] == "start_refused"
        assert len(refused["faults"]) == 2
        assert "refuses this login" in refused["faults"][1]


@pytest.mark.parametrize("role", Role)
def test_memory_stores_end_with_78_and_every_fault_in_every_role(role: Role, tmp_path: Path) -> None:
    urls = {"DAIRA_DATABASE_URL": "memory://", "DAIRA_BLOB_URL": "memory://"}
    refused = run("serve", cwd=tmp_path, DAIRA_ENV="production", DAIRA_PORT="0", DAIRA_ROLE=role, **urls)
    assert refused.returncode == 78
    assert len(json.loads(refused.stderr)["faults"]) == 2


def test_up_refuses_production_and_changes_nothing(cloned: Cloned, tmp_path: Path) -> None:
    there = {"DAIRA_ENV": "production", "DAIRA_DATABASE_URL": cloned.app_url}
    refused = run("up", "--port", "0", "--data-dir", str(tmp_path / "data"), cwd=tmp_path, **there)
    assert refused.returncode == 1
    assert "`daira up` is for development" in refused.stderr
    assert "daira serve" in refused.stderr
    assert not (tmp_path / "data").exists()
    listed = run("tenant", "list", cwd=tmp_path, DAIRA_BLOB_URL=tmp_path.as_uri(), **there)
    assert "dev" not in listed.stdout.split()


async def test_the_key_of_up_is_named_with_the_command_that_revokes_it(cloned: Cloned, tmp_path: Path) -> None:
    there = {"DAIRA_DATABASE_URL": cloned.app_url, "DAIRA_BLOB_URL": tmp_path.as_uri()}
    run("tenant", "create", "dev", cwd=tmp_path, **there)
    run("key", "create", "dev", "--name", "daira up", cwd=tmp_path, **there)
    refused = run("serve", cwd=tmp_path, DAIRA_ENV="production", DAIRA_PORT="0", **there)
    assert refused.returncode == 78
    (fault,) = json.loads(refused.stderr)["faults"]
    revoke = fault.partition("`daira key revoke ")[2].rstrip("`").split()
    assert run("key", "revoke", *revoke, cwd=tmp_path, **there).returncode == 0
    with started(**there) as service:
        service.until_ready(seconds=60)


async def test_restarts_amid_restarts_of_the_database_never_end_with_78() -> None:
    async with own_server() as server:
        assert await statuses_of_restarts(server, count=5) == {0: 5}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_all_roles_serve_soon_after_a_database_that_was_away_for_ninety_seconds() -> None:
    async with own_server() as server:
        await server.kill()
        url = server.cloned.app_url
        with (
            started(DAIRA_DATABASE_URL=url, DAIRA_ROLE="web") as web,
            started(DAIRA_DATABASE_URL=url, DAIRA_ROLE="worker") as worker,
        ):
            for each in (web, worker):
                each.until_it_answers()
            await asyncio.sleep(90)
            await server.start()
            back = time.monotonic()
            for each in (web, worker):
                each.until_ready()
            print(f"\nserved {time.monotonic() - back:.1f} s after the server was back")  # noqa: T201
            for each in (web, worker):
                awaited = [line for line in each.logged() if line["event"] == "dependency_awaited"]
                assert len(awaited) == 2


@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_two_hundred_restarts_amid_restarts_of_the_database_never_end_with_78() -> None:
    async with own_server() as server:
        assert await statuses_of_restarts(server, count=200) == {0: 200}


async def statuses_of_restarts(server: OwnServer, *, count: int) -> Counter[int]:
    """Start workers one after the other amid `immediate` restarts of the database, and stop each a second later."""
    disturbing = asyncio.create_task(_disturb(server))
    statuses: Counter[int] = Counter()
    try:
        for _ in range(count):
            with started(DAIRA_DATABASE_URL=server.cloned.app_url, DAIRA_ROLE="worker", DAIRA_OCR="null") as worker:
                await asyncio.to_thread(worker.until_it_answers)
                await asyncio.sleep(1)
                statuses[await asyncio.to_thread(worker.stop)] += 1
    finally:
        disturbing.cancel()
        await asyncio.gather(disturbing, return_exceptions=True)
        await server.start()
    return statuses


async def _disturb(server: OwnServer) -> None:
    while True:
        await server.restart(signal.SIGQUIT)
        await asyncio.sleep(0.2)


@contextmanager
def _stopped(valkey: Any) -> Iterator[None]:
    valkey.stop()
    yield
