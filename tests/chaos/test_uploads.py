"""The queue's server is down while documents are uploaded: nobody waits, nobody is refused, nothing is forgotten.

Run: ./daira test -m slow tests/chaos/test_uploads.py -n0 -s
"""

import asyncio
import time
from pathlib import Path

import pytest

from tests.chaos.queues import AWS, QUEUES
from tests.support.databases import Databases
from tests.support.sample_documents import Sheet, pdf
from tests.support.service import ended, serving, upload

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DOCUMENTS = 50


@pytest.mark.parametrize("adapter", QUEUES)
async def test_uploads_go_on_without_the_queue_and_their_jobs_end_when_it_is_back(
    adapter: str, databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    async with databases.clone() as cloned, QUEUES[adapter](cloned) as queue:
        settings = {"DAIRA_QUEUE_URL": queue.url, "DAIRA_SWEEP_SECONDS": "5", **queue.settings}
        with serving(cloned, tmp_path, **settings) as service, service.client() as client:
            upload(client, pdf(Sheet(lines=("Before",))))
            await queue.stop()
            seconds, jobs = [], []
            for number in range(DOCUMENTS):
                started = time.monotonic()
                jobs.append(upload(client, pdf(Sheet(lines=(f"Document {number}",))))["jobs"][0])
                seconds.append(time.monotonic() - started)
            print(f"\n{adapter} away: slowest of {DOCUMENTS} uploads {max(seconds):.2f} s")  # noqa: T201
            assert max(seconds) < 1
            await queue.start()
            back = time.monotonic()
            ends = await asyncio.to_thread(lambda: [ended(client, job, seconds=60) for job in jobs])
            print(f"{adapter}: all ended {time.monotonic() - back:.1f} s after its return")  # noqa: T201
            assert {job["state"] for job in ends} == {"done"}
            assert {job["attempts"] for job in ends} == {1}
