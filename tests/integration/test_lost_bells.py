"""The queue holds nothing worth protecting: wiped, doubled or forged bells change nothing but time."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.postgres.engine import administer
from app.domain.ids import uuid7
from tests.support.databases import Cloned
from tests.support.folders import open_folder
from tests.support.ports import free_port
from tests.support.sample_documents import SENTENCE, Sheet, pdf
from tests.support.service import Service, ended, environment, serving, up, upload

UPLOADS = 200


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with open_folder() as folder, up(folder / "data") as service:
        yield service


def test_all_jobs_of_a_wiped_queue_end_within_30_seconds_and_none_twice(service: Service) -> None:
    with service.client() as client:
        documents = [upload(client, pdf(Sheet(lines=(SENTENCE, f"Page of document {n}")))) for n in range(UPLOADS)]
        asyncio.run(_execute(service, "delete from daira.doorbells"))
        until = asyncio.run(_now(service)) + 30
        jobs = [ended(client, document["jobs"][0], seconds=30) for document in documents]
        assert asyncio.run(_now(service)) < until
    assert Counter(job["state"] for job in jobs) == {"done": UPLOADS}
    assert {tuple(entry["outcome"] for entry in job["history"]) for job in jobs} == {("done",)}


@pytest.mark.threat(35)
def test_a_bell_rung_fifty_times_starts_its_job_once(service: Service) -> None:
    with service.client() as client:
        document = upload(client, pdf(Sheet(lines=("Rung again and again",))))
        job = document["jobs"][0]
        ring = "insert into daira.doorbells (lane, tenant_id, job_id) values ('ocr', 'dev', $1) on conflict do nothing"
        for _ in range(50):
            asyncio.run(_execute(service, ring, job["id"]))
        assert ended(client, job)["attempts"] == 1


@pytest.mark.threat(30, 31)
def test_forged_bells_are_answered_and_change_nothing(service: Service) -> None:
    with service.client() as client:
        document = upload(client, pdf(Sheet(lines=("Not theirs",))))
        job = ended(client, document["jobs"][0])
        forge = "insert into daira.doorbells (lane, tenant_id, job_id) values ('ocr', $1, $2)"
        for tenant in ("other", "no-such-tenant", "dev"):
            asyncio.run(_execute(service, forge, tenant, job["id"]))
        asyncio.run(_execute(service, forge, "dev", str(uuid7())))
        asyncio.run(_emptied(service))
        assert client.get(f"/v1/jobs/{job['id']}").json() == job


IMPATIENT = """
from datetime import timedelta
from app.worker import consumer
consumer.UNHEARD_AFTER = timedelta(seconds=1)
from app.__main__ import main
main()
"""


def test_a_process_whose_queue_delivers_nothing_ends_to_be_started_again(cloned: Cloned, tmp_path: Path) -> None:
    """Each doorbell is taken and dropped: the server answers, and nothing else would ever show it."""
    asyncio.run(_swallow_bells(cloned))
    with serving(cloned, tmp_path, DAIRA_ROLE="web") as web, web.client() as client:
        job = upload(client, pdf(Sheet(lines=("Unheard",))))["jobs"][0]
        env = environment(DAIRA_ROLE="worker", DAIRA_DATABASE_URL=cloned.app_url, DAIRA_PORT=str(free_port()))
        env |= {"DAIRA_BLOB_URL": (tmp_path / "blobs").as_uri(), "DAIRA_LOG_FORMAT": "json"}
        ended = subprocess.run(
            [sys.executable, "-P", "-c", IMPATIENT, "serve"],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == os.EX_TEMPFAIL, ended.stderr
        events = [json.loads(line)["event"] for line in ended.stderr.splitlines()]
        assert [event for event in events if event in {"queue_silent", "worker_gave_up", "worker_stopped"}] == [
            "queue_silent",
            "worker_gave_up",
            "worker_stopped",
        ]
        assert client.get(f"/v1/jobs/{job['id']}").json()["state"] == "queued"


async def _swallow_bells(cloned: Cloned) -> None:
    async with administer(cloned.admin_url) as admin:
        await admin.execute("create rule swallowed as on insert to daira.doorbells do instead nothing")


async def _execute(service: Service, statement: str, *arguments: object) -> None:
    async with administer(service.database_url) as connection:
        await connection.execute(statement, *arguments)


async def _now(service: Service) -> float:
    async with administer(service.database_url) as connection:
        now: float = await connection.fetchval("select extract(epoch from clock_timestamp())::float8")
        return now


async def _emptied(service: Service) -> None:
    async with asyncio.timeout(20), administer(service.database_url) as connection:
        while await connection.fetchval("select count(*) from daira.doorbells"):
            await asyncio.sleep(0.05)
