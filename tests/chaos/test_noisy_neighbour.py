"""A tenant with ten thousand jobs delays another's one by less than a second, and never runs more than it may.

Run: ./daira test -m slow tests/chaos/test_noisy_neighbour.py -n0 -s
"""

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.adapters.postgres.engine import administer
from app.bootstrap import open_runtime
from app.domain.doorbells import Ring
from app.domain.ids import JobId, TenantId, uuid7
from app.domain.jobs import NewJob
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Outcome
from app.ports.leases import ProgressReporter
from app.services.tenants import TenantService
from app.settings import Settings
from app.telemetry import Metrics
from tests.chaos.cluster import cluster, ring_all
from tests.chaos.queues import QUEUES
from tests.support.databases import Cloned, Databases

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WHALE, MINNOW = TenantId("whale"), TenantId("minnow")
JOBS, SECONDS, EACH, SLOTS = 10_000, 60, 0.2, 8

ADD = """
insert into daira.jobs (tenant_id, id, kind) select $1, uuidv7(), 'ocr' from generate_series(1, $2::int) returning id
"""

Enqueue = Callable[[TenantId, int], Awaitable[list[JobId]]]
"""Rows with their bells; returns when they are rung."""


async def waits_of_the_minnow(enqueue: Enqueue, started: Callable[[], dict[JobId, float]]) -> list[float]:
    """Seconds from each enqueue to the start, one a second, behind the whale's backlog."""
    await enqueue(WHALE, JOBS)
    asked: dict[JobId, float] = {}
    for _ in range(SECONDS):
        second = asyncio.create_task(asyncio.sleep(1))
        now = time.monotonic()
        (job,) = await enqueue(MINNOW, 1)
        asked[job] = now
        await second
    async with asyncio.timeout(30):
        while not asked.keys() <= started().keys():
            await asyncio.sleep(0.1)
    return [started()[job] - at for job, at in asked.items()]


def tell(adapter: str, waits: Sequence[float]) -> float:
    p95 = statistics.quantiles(waits, n=20)[-1]
    print(f"\n{adapter}: the minnow waited {statistics.median(waits):.3f} s (p50), {p95:.3f} s (p95)")  # noqa: T201
    return p95


def executions(folder: Path) -> list[dict[str, Any]]:
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    return sorted((json.loads(line) for line in lines), key=lambda event: event["at"])


def starts(folder: Path) -> dict[JobId, float]:
    return {JobId(UUID(e["job"])): e["at"] for e in executions(folder) if e["event"] == "start"}


async def register(cloned: Cloned, *, cap: int | None = None) -> None:
    async with administer(cloned.admin_url) as admin:
        for tenant in (WHALE, MINNOW):
            await admin.execute("insert into daira.tenants (tenant_id) values ($1)", tenant)
        await admin.execute("update daira.tenants set max_running = $2 where tenant_id = $1", WHALE, cap)


@pytest.mark.threat(37, 67)
@pytest.mark.parametrize("adapter", ["postgres", "redis"])
async def test_ten_thousand_jobs_of_one_tenant_do_not_keep_another_waiting(
    adapter: str, databases: Databases, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        cloned = await stack.enter_async_context(databases.clone())
        queue = await stack.enter_async_context(QUEUES[adapter](cloned))
        await register(cloned)

        async def enqueue(tenant: TenantId, count: int) -> list[JobId]:
            async with administer(cloned.admin_url) as admin:
                jobs = [JobId(row["id"]) for row in await admin.fetch(ADD, tenant, count)]
            await ring_all(queue.doorbell, [Ring(tenant, job) for job in jobs])
            return jobs

        settings = {"WORK_SECONDS": str(EACH), "EXECUTIONS": str(tmp_path), **queue.settings}
        await stack.enter_async_context(
            cluster(cloned, queue_url=queue.url, workers=1, lanes=f"ocr={SLOTS}", **settings)
        )
        # The worker is up and listens.
        (first,) = await enqueue(MINNOW, 1)
        async with asyncio.timeout(60):
            while first not in starts(tmp_path):
                await asyncio.sleep(0.1)
        waits = await waits_of_the_minnow(enqueue, lambda: starts(tmp_path))
        assert tell(adapter, waits) < 1


async def test_nor_do_they_in_memory() -> None:
    began: dict[JobId, float] = {}

    class Slow:
        kind = "ocr"

        async def run(self, job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
            began[job.lease.job_id] = time.monotonic()
            await asyncio.sleep(EACH)
            return Done()

    settings = Settings(
        database_url="memory://", queue_url="memory://", blob_url="memory://", ocr="null", lanes=f"ocr={SLOTS}"
    )
    async with open_runtime(settings, Metrics(), handlers=[Slow()]) as runtime:
        tenants: TenantService = runtime.tenants
        for tenant in (WHALE, MINNOW):
            await tenants.create(tenant)

        async def enqueue(tenant: TenantId, count: int) -> list[JobId]:
            jobs = [NewJob(id=JobId(uuid7()), kind="ocr", payload={}) for _ in range(count)]
            async with tenants.database.begin(tenant) as tx:
                for job in jobs:
                    await tx.jobs.add(job)
            await runtime.sweeping.ringing.ring(("ocr", Ring(tenant, job.id)) for job in jobs)
            return [job.id for job in jobs]

        assert runtime.worker is not None
        runtime.worker.start()
        waits = await waits_of_the_minnow(enqueue, lambda: began)
        await runtime.worker.stop()
    assert tell("memory", waits) < 1


async def test_a_cap_holds_over_four_workers_and_a_free_place_is_taken_at_once(
    databases: Databases, tmp_path: Path
) -> None:
    cap, jobs = 4, 400
    async with AsyncExitStack() as stack:
        cloned = await stack.enter_async_context(databases.clone())
        queue = await stack.enter_async_context(QUEUES["postgres"](cloned))
        await register(cloned, cap=cap)
        settings = {"WORK_SECONDS": str(EACH), "EXECUTIONS": str(tmp_path), **queue.settings}
        run = await stack.enter_async_context(
            cluster(cloned, queue_url=queue.url, workers=4, lanes="ocr=20", **settings)
        )
        async with administer(cloned.admin_url) as admin:
            rows = await admin.fetch(ADD, WHALE, jobs)
        await ring_all(queue.doorbell, [Ring(WHALE, JobId(row["id"])) for row in rows])
        await run.until_done(jobs, seconds=120)
        await run.verify(jobs)
    most, idle = occupation(executions(tmp_path), cap=cap, jobs=jobs)
    p95 = statistics.quantiles(idle, n=20)[-1]
    print(f"\ncap {cap}: at most {most} ran; a place stayed free {p95:.3f} s (p95), {max(idle):.3f} s (max)")  # noqa: T201
    assert most == cap
    assert p95 < 0.5


def occupation(events: Sequence[dict[str, Any]], *, cap: int, jobs: int) -> tuple[int, list[float]]:
    """The most that ran at once, and for how long (s) each place stayed free while jobs waited."""
    running, most, begun = 0, 0, 0
    free: list[float] = []
    idle: list[float] = []
    for event in events:
        if event["event"] == "start":
            begun += 1
            running += 1
            most = max(most, running)
            if free:
                idle.append(event["at"] - free.pop(0))
        else:
            running -= 1
            if begun <= jobs - cap:
                free.append(event["at"])
    return most, idle
