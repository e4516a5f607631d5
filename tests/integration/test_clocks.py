"""Web, worker and command with clocks that are wrong: nothing is deleted, ended or put out of order by them.

Needs Debian's package `libfaketime`. Run: ./daira test -m slow tests/integration/test_clocks.py -n0
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook as Verifier

from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.ids import DocumentId, TenantId, uuid7
from app.domain.webhooks import new_secret
from tests.support.databases import Cloned
from tests.support.faketime import wrong_clock
from tests.support.issuer import AUDIENCE, issuing
from tests.support.ministack import Ministack
from tests.support.ports import free_port
from tests.support.postgres_rig import postgres_rig
from tests.support.receiver import receiving
from tests.support.rig import Rig, done
from tests.support.s3 import KEY_ID, PREFIX, REGION, SECRET, bucket_on, set_up
from tests.support.service import command, environment, serving, wait_until

pytestmark = pytest.mark.slow

ACME = TenantId("acme")
FAR, NEAR = ("+40d", "-40d"), ("+5m", "-5m")
UNNOTICED = ("+45s", "-45s")
"""Too little for the check of clocks."""
SECONDS = {"+40d": 40 * 86_400, "-40d": -40 * 86_400, "+5m": 300, "-5m": -300, "+45s": 45, "-45s": -45}
MINUTE, HOUR, DAY = 60, 3600, 86_400

PURGE = """
import asyncio
from dataclasses import replace
from datetime import timedelta
from app.bootstrap import open_runtime
from app.settings import Settings
from app.telemetry import Metrics

async def purge():
    async with open_runtime(Settings().without_worker(), Metrics()) as runtime:
        print(await replace(runtime.purging, tolerated=timedelta.max).purge())

asyncio.run(purge())
"""
"""A purge that the check of clocks does not stop."""


@pytest.fixture
async def rig(cloned: Cloned, engine: PostgresEngine) -> Rig:
    return postgres_rig(cloned, engine)


def settings(cloned: Cloned, folder: Path, **others: str) -> dict[str, str]:
    blobs = {"DAIRA_DATABASE_URL": cloned.app_url, "DAIRA_BLOB_URL": (folder / "blobs").as_uri()}
    return {**blobs, "DAIRA_OCR": "null", "DAIRA_LOG_LEVEL": "info", **others}


def run(program: list[str], folder: Path, *, offset: str, **ours: str) -> subprocess.CompletedProcess[str]:
    env = environment(**ours) | wrong_clock(offset)
    return subprocess.run(program, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def wrong(cloned: Cloned, folder: Path, *, offset: str, **ours: str) -> Iterator[tuple[str, Path]]:
    """`daira serve` by a wrong clock: its address, and its log."""
    log, port = folder / f"log-{uuid7()}", free_port()
    env = environment(**settings(cloned, folder, DAIRA_PORT=str(port), **ours)) | wrong_clock(offset)
    with log.open("wb") as written:
        process = subprocess.Popen(command("serve"), cwd=folder, env=env, stdout=written, stderr=written)
    try:
        wait_until(lambda: process.poll() is not None or bool(logged(log, "service_ready")), seconds=60)
        (ready,) = logged(log, "service_ready")
        off = (datetime.fromisoformat(ready["timestamp"]) - datetime.now(UTC)).total_seconds()
        assert abs(off - SECONDS[offset]) < MINUTE, "the clock is wrong as it should be"
        yield f"http://127.0.0.1:{port}", log
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)


def logged(log: Path, event: str) -> list[dict[str, Any]]:
    lines = [line for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    return [each for each in map(json.loads, lines) if each["event"] == event]


def a_file(path: Path, *, age: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"Dear Sir")
    os.utime(path, (0, time.time() - age))
    return path


async def a_document(rig: Rig, folder: Path, *, age: float) -> DocumentId:
    document = await rig.document(ACME, created_at=datetime.now(UTC) - timedelta(seconds=age))
    a_file(folder / "blobs" / "acme" / str(document.id), age=age)
    return document.id


class Yard:
    """What a purge with a retention of 30 days may not touch, and what it has to remove."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig = rig
        self.acme = folder / "blobs" / "acme"
        self.folder = folder

    async def fill(self) -> None:
        await self.rig.tenant(ACME)
        self.young = {await a_document(self.rig, self.folder, age=age) for age in (3, DAY, 29 * DAY)}
        self.old = await a_document(self.rig, self.folder, age=31 * DAY)
        self.files = [
            # Of an upload under way, and of one whose row is to come.
            a_file(self.acme / f".{uuid7()}.{'0' * 32}.part", age=3),
            a_file(self.acme / str(uuid7()), age=3),
            a_file(self.acme / str(uuid7()), age=23 * HOUR),
        ]
        self.waste = [a_file(self.acme / str(uuid7()), age=25 * HOUR)]
        self.job = await self.rig.enqueue(ACME)
        assert await self.rig.settle(done(await self.rig.lease(self.job)))
        async with self.rig.database.begin(ACME) as tx:
            await tx.idempotency_keys.take("once", b"1")
            await tx.idempotency_keys.answer("once", resource_id=self.job.id, made=True)

    async def documents(self) -> set[DocumentId]:
        async with self.rig.database.begin(ACME) as tx:
            return {document.id for document in await tx.documents.newest(limit=100)}

    async def keeps(self, *, all_of_it: bool) -> None:
        documents = self.young | ({self.old} if all_of_it else set())
        assert await self.documents() == documents
        assert all((self.acme / str(document)).exists() for document in documents)
        assert all(file.exists() for file in self.files)
        assert {file.exists() for file in self.waste} == {all_of_it}
        async with self.rig.database.begin(ACME) as tx:
            assert await tx.jobs.get(self.job.id) is not None
            assert await tx.idempotency_keys.take("once", b"1") is not None


@pytest.fixture
async def yard(rig: Rig, folder: Path) -> Yard:
    yard = Yard(rig, folder)
    await yard.fill()
    return yard


@pytest.mark.parametrize("offset", [*FAR, *NEAR])
async def test_a_command_by_a_wrong_clock_purges_nothing_and_says_why(
    yard: Yard, cloned: Cloned, folder: Path, offset: str
) -> None:
    ours = settings(cloned, folder, DAIRA_RETENTION_DAYS="30")
    purged = run(command("purge"), folder, offset=offset, **ours)
    assert purged.returncode == 1
    direction = "ahead of" if offset.startswith("+") else "behind"
    told = " ".join(purged.stderr.split())
    assert f"{direction} the database's" in told
    assert f"{direction} the blob store's" in told
    await yard.keeps(all_of_it=True)
    doctor = run(command("doctor"), folder, offset=offset, **ours)
    assert doctor.returncode == 1
    assert f"clocks: {offset[0]}" in doctor.stdout
    assert f"{direction} the database's" in " ".join(doctor.stdout.split())


@pytest.mark.parametrize("offset", [*FAR, *NEAR, *UNNOTICED])
async def test_a_purge_counts_no_age_by_its_own_clock(yard: Yard, cloned: Cloned, folder: Path, offset: str) -> None:
    ours = settings(cloned, folder, DAIRA_RETENTION_DAYS="30", DAIRA_JOB_RETENTION_DAYS="30")
    purged = run([sys.executable, "-P", "-c", PURGE], folder, offset=offset, **ours)
    assert "PurgeReport(documents=1, orphans=1, unfinished=0, keys=0, jobs=0, left=0)" in purged.stdout, purged.stderr
    await yard.keeps(all_of_it=False)


@pytest.mark.parametrize("offset", FAR)
async def test_a_worker_by_a_wrong_clock_purges_nothing(yard: Yard, cloned: Cloned, folder: Path, offset: str) -> None:
    ours = {"DAIRA_ROLE": "worker", "DAIRA_RETENTION_DAYS": "30", "DAIRA_PURGE_SECONDS": "1"}
    with wrong(cloned, folder, offset=offset, **ours) as (_, log):
        wait_until(lambda: len(logged(log, "clocks_differ")) > 1, seconds=60)
    await yard.keeps(all_of_it=True)


@pytest.fixture
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch)


@pytest.mark.parametrize("offset", [*FAR, *NEAR])
@pytest.mark.usefixtures("_credentials")
async def test_bytes_in_s3_have_the_age_that_the_bucket_says(
    rig: Rig, cloned: Cloned, folder: Path, offset: str
) -> None:
    await rig.tenant(ACME)
    server = Ministack()
    server.start()
    try:
        async with bucket_on(server.url) as raw:
            name = f"{PREFIX}/acme/{uuid7()}"
            await raw("put_object", Key=name, Body=b"Dear Sir")
            await raw("create_multipart_upload", Key=f"{PREFIX}/acme/{uuid7()}")
            ours = settings(cloned, folder, DAIRA_BLOB_URL=f"s3://{raw.name}/{PREFIX}")
            ours |= {"DAIRA_AWS_ENDPOINT_URL": server.url, "DAIRA_AWS_REGION": REGION}
            ours |= {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}
            assert run(command("purge"), folder, offset=offset, **ours).returncode == 1
            run([sys.executable, "-P", "-c", PURGE], folder, offset=offset, **ours)
            assert await raw.objects() == [name]
            assert len(await raw.uploads()) == 1
    finally:
        server.close()


def upload(client: httpx.Client, number: int, **headers: str) -> dict[str, Any]:
    answer = client.post("/v1/documents", files={"file": (f"{number}.txt", b"letter %d" % number)}, headers=headers)
    assert answer.status_code in {200, 202}, answer.text
    document: dict[str, Any] = answer.json()
    return document


def walked(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    """All of a listing, one by one."""
    found: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(path, params={"limit": 1} | ({"cursor": cursor} if cursor else {})).json()
        found += page["data"]
        cursor = page["next_cursor"]
    return found


def now_in(text: str) -> bool:
    return abs((datetime.fromisoformat(text) - datetime.now(UTC)).total_seconds()) < 2 * MINUTE


@pytest.mark.parametrize("offset", [*FAR, *NEAR])
async def test_two_webs_whose_clocks_differ_serve_as_one(cloned: Cloned, folder: Path, offset: str) -> None:
    ours = {"DAIRA_ROLE": "web", "DAIRA_WEBHOOK_ALLOW_PRIVATE": "true"}
    with (
        serving(cloned, folder, DAIRA_OCR="null", **ours) as right,
        wrong(cloned, folder, offset=offset, **ours) as (url, _),
        right.client() as one,
        replace(right, url=url).client() as other,
    ):
        uploads = [upload(one if number % 2 else other, number) for number in range(6)]
        assert all(now_in(document["created_at"]) for document in uploads)
        newest = [document["id"] for document in uploads[::-1]]
        jobs = [job["id"] for document in uploads[::-1] for job in document["jobs"]]
        for client in (one, other):
            assert [each["id"] for each in walked(client, "/v1/documents")] == newest
            assert [each["id"] for each in walked(client, "/v1/jobs")] == jobs
            used = client.get("/v1/usage").json()
            assert used["data"][-1]["day"] == datetime.now(UTC).date().isoformat()
            assert used["data"][-1]["documents"] == 6
        replay = {"Idempotency-Key": "once"}
        assert upload(one, 7, **replay)["id"] == upload(other, 7, **replay)["id"]
        hook = {"url": "http://127.0.0.1:1/hook", "events": ["job.done"]}
        webhooks = [client.post("/v1/webhooks", json=hook).json() for client in (one, other, one, other)]
        assert all(now_in(webhook["created_at"]) for webhook in webhooks)
        assert [each["id"] for each in walked(one, "/v1/webhooks")] == [webhook["id"] for webhook in webhooks[::-1]]
        skew = other.get("/metrics").text.partition("\ndaira_clock_skew_seconds ")[2].partition("\n")[0]
        assert abs(float(skew) - SECONDS[offset]) < 5


@pytest.mark.parametrize("offset", [*FAR, *NEAR])
async def test_keys_live_by_the_databases_clock(rig: Rig, cloned: Cloned, folder: Path, offset: str) -> None:
    ours = settings(cloned, folder, DAIRA_ROLE="web")

    def key(*arguments: str) -> str:
        made = run(command("key", *arguments), folder, offset=offset, **ours)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    with (
        serving(cloned, folder, DAIRA_ROLE="web", DAIRA_OCR="null") as right,
        wrong(cloned, folder, offset=offset, DAIRA_ROLE="web") as (url, _),
    ):
        made = [key("create", "acme", "--name", name, "--expires-in", "3m") for name in ("short", "rotated")]
        async with rig.database.begin(ACME) as tx:
            keys = {each.name: each for each in await tx.keys.all()}
        assert all(now_in(keys[name].created_at.isoformat()) for name in ("short", "rotated"))
        made.append(key("rotate", "acme", str(keys["rotated"].id), "--overlap", "2m"))
        assert {admits(at, credential) for at in (right.url, url) for credential in made} == {True}
        async with administer(cloned.admin_url) as admin:
            await admin.execute("update daira.api_keys set expires_at = now() - interval '1 second'")
        assert {admits(at, credential) for at in (right.url, url) for credential in made} == {False}


def admits(url: str, credential: str) -> bool:
    headers = {"Authorization": f"Bearer {credential}"}
    return httpx.get(f"{url}/v1/me", headers=headers, trust_env=False).status_code == httpx.codes.OK


@pytest.mark.parametrize("offset", [*FAR, *NEAR])
async def test_tokens_live_by_the_databases_clock(rig: Rig, cloned: Cloned, folder: Path, offset: str) -> None:
    await rig.tenant(ACME)
    async with issuing() as issuer:
        ours = {"DAIRA_ROLE": "web", "DAIRA_OIDC_ISSUER": issuer.url, "DAIRA_OIDC_AUDIENCE": AUDIENCE}
        with wrong(cloned, folder, offset=offset, **ours) as (url, _):
            now = int(time.time())
            tokens = [issuer.token(), issuer.token(exp=now - 2 * MINUTE), issuer.token(nbf=now + 2 * MINUTE)]
            # In a thread: the issuer answers on this loop.
            assert [await asyncio.to_thread(admits, url, token) for token in tokens] == [True, False, False]


@pytest.mark.parametrize("offset", [*FAR, *NEAR])
async def test_a_delivery_is_signed_by_the_databases_clock(rig: Rig, cloned: Cloned, folder: Path, offset: str) -> None:
    """Receivers refuse a signature that is minutes off."""
    await rig.tenant(ACME)
    async with receiving() as receiver:
        former = new_secret()
        webhook = await rig.webhook(ACME, url=receiver.url, secret=former)
        async with rig.database.begin(ACME) as tx:
            await tx.webhooks.rotate(webhook.id, secret=new_secret(), overlap=timedelta(hours=1))
        job = await rig.enqueue(ACME)
        assert await rig.settle(done(await rig.lease(job)))
        ours = {"DAIRA_ROLE": "worker", "DAIRA_WEBHOOK_ALLOW_PRIVATE": "true", "DAIRA_SWEEP_SECONDS": "1"}
        with wrong(cloned, folder, offset=offset, **ours):
            (received,) = await receiver.until(1)
    # The former secret signs for another hour.
    assert Verifier(former).verify(received.body, received.headers)["type"] == "job.done"
