"""Clients that wait, and clients that follow, on a service with five connections."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.ids import JobId, TenantId
from app.domain.jobs import Job
from tests.support.databases import Cloned
from tests.support.event_streams import Blocks, Sent
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import Rig, done
from tests.support.sample_documents import Sheet, pdf
from tests.support.service import Service, serving

ACME = TenantId("acme")

WAITERS, STREAMS, POOL = 200, 50, 5


@pytest.fixture
async def web(cloned: Cloned, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Of a service that does no jobs: the test does."""
    with serving(cloned, folder, DAIRA_ROLE="web", DAIRA_POOL_SIZE=str(POOL)) as service:
        async with client_of(service) as client:
            yield client


@pytest.fixture
def rig(cloned: Cloned, engine: PostgresEngine) -> Rig:
    return postgres_rig(cloned, engine)


def client_of(service: Service) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=service.url,
        headers={"Authorization": f"Bearer {service.api_key}"},
        timeout=70,
        limits=httpx.Limits(max_connections=None),
        trust_env=False,
    )


async def uploaded(web: httpx.AsyncClient, text: str, **headers: str) -> httpx.Response:
    file = {"file": ("a.pdf", pdf(Sheet(lines=(text,))))}
    return await web.post("/v1/documents", files=file, headers=headers)


async def job_of(rig: Rig, answer: httpx.Response) -> Job:
    async with rig.database.begin(ACME) as tx:
        job = await tx.jobs.get(JobId(UUID(answer.json()["jobs"][0]["id"])))
    assert job is not None
    return job


@asynccontextmanager
async def streamed(web: httpx.AsyncClient, path: str, **headers: str) -> AsyncIterator[AsyncIterator[Sent]]:
    async with web.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        yield _events(answer)


async def _events(answer: httpx.Response) -> AsyncIterator[Sent]:
    blocks = Blocks()
    async for chunk in answer.aiter_text():
        for sent in blocks.feed(chunk):
            yield sent


async def test_a_wait_is_answered_in_time_with_the_running_job(web: httpx.AsyncClient, rig: Rig) -> None:
    """Behaviour 23."""
    began = time.monotonic()
    accepted = await uploaded(web, "Waited for", Prefer="wait=1")
    assert 0.9 <= time.monotonic() - began < 3
    assert accepted.status_code == 202
    job = await job_of(rig, accepted)
    assert accepted.headers["Location"] == f"/v1/documents/{job.document_id}"
    assert accepted.headers["Preference-Applied"] == "wait=1"
    lease = await rig.lease(job)
    path = f"/v1/jobs/{job.id}"
    for asked in ({"params": {"wait": 5}}, {"headers": {"Prefer": "wait=5"}}):
        began = time.monotonic()
        answer = await web.get(path, **asked)
        assert 4 <= time.monotonic() - began <= 6
        assert (answer.status_code, answer.json()["state"]) == (200, "claimed")
        assert answer.headers.get("Preference-Applied") == ("wait=5" if "headers" in asked else None)
    with pytest.raises(httpx.ReadTimeout):
        await web.get(path, params={"wait": 60}, timeout=0.5)
    assert (await rig.beat(lease)).cancel_requested is False
    waiting = asyncio.create_task(web.get(path, params={"wait": 60}))
    await rig.settle(done(lease))
    async with asyncio.timeout(5):
        assert (await waiting).json()["state"] == "done"


async def test_two_hundred_waiters_and_fifty_streams_leave_five_connections_free(
    web: httpx.AsyncClient, rig: Rig, cloned: Cloned
) -> None:
    jobs = [await job_of(rig, await uploaded(web, f"Number {n}")) for n in range(20)]
    leases = [await rig.lease(job) for job in jobs]
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(streamed(web, "/v1/events")) for _ in range(STREAMS)]
        for stream in opened:
            assert [(await _next_state(stream))["state"] for _ in jobs] == ["claimed"] * len(jobs)
        waiting = [
            asyncio.create_task(web.get(f"/v1/jobs/{jobs[n % len(jobs)].id}", params={"wait": 60}))
            for n in range(WAITERS)
        ]
        # Those of one watcher, once a second, and of what asks here. Not those of each who waits.
        deadline = time.monotonic() + 90
        while (rate := await _transactions_a_second(web, cloned)) > 20:
            assert time.monotonic() < deadline, f"{rate:.1f} transactions a second"
        assert not any(task.done() for task in waiting)
        for lease in leases:
            await rig.settle(done(lease))
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*waiting)
            for stream in opened:
                assert [(await _next_state(stream))["state"] for _ in jobs] == ["done"] * len(jobs)
        assert {answer.json()["state"] for answer in answers} == {"done"}


async def _next_state(stream: AsyncIterator[Sent]) -> dict[str, str]:
    async for sent in stream:
        if sent.event == "state":
            body: dict[str, str] = json.loads(sent.data or "")
            return body
    raise AssertionError("the stream has ended")


async def _transactions_a_second(web: httpx.AsyncClient, cloned: Cloned) -> float:
    """Over two seconds, in which the service says that it is ready; while it does not, too many to count."""
    before, began = await _transactions(cloned), time.monotonic()
    while time.monotonic() - began < 2:
        # On a busy machine the two hundred may still be on their way in.
        if (await web.get("/readyz", timeout=5)).status_code != 200:
            return math.inf
        await asyncio.sleep(0.5)
    return (await _transactions(cloned) - before) / (time.monotonic() - began)


async def _transactions(cloned: Cloned) -> int:
    async with administer(cloned.admin_url) as admin:
        count: int = await admin.fetchval("select xact_commit from pg_stat_database where datname = current_database()")
    return count
