"""Worker processes on one database and one queue, jobs for them, and the proof of what became of the jobs."""

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from app.adapters.postgres.engine import administer
from app.domain.doorbells import Ring
from app.domain.ids import JobId, tenant_id
from app.ports.doorbell import Doorbell
from tests.support.databases import Cloned
from tests.support.folders import ROOT
from tests.support.service import environment

ENQUEUE = """
insert into daira.jobs (tenant_id, id, kind, run_after, ring_after)
select 'tenant-' || n % $2, gen_random_uuid(), 'ocr', now(), now() + interval '5 seconds' from generate_series(1, $1) n
returning tenant_id, id
"""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    cloned: Cloned
    workers: list[subprocess.Popen[bytes]]

    async def enqueue(self, count: int, *, tenants: int) -> list[Ring]:
        """Rows without bells, as after a commit."""
        async with administer(self.cloned.admin_url) as admin:
            await admin.execute(
                "insert into daira.tenants (tenant_id) select 'tenant-' || n from generate_series(0, $1 - 1) n"
                " on conflict do nothing",
                tenants,
            )
            rows = await admin.fetch(ENQUEUE, count, tenants)
        return [Ring(tenant_id(row["tenant_id"]), JobId(row["id"])) for row in rows]

    async def done(self) -> int:
        async with administer(self.cloned.admin_url) as admin:
            count: int = await admin.fetchval("select count(*) from daira.jobs where state = 'done'")
            return count

    async def until_done(self, count: int, *, seconds: float) -> float:
        """Seconds that it took."""
        started = time.monotonic()
        async with asyncio.timeout(seconds):
            while await self.done() < count:
                await asyncio.sleep(0.05)
        return time.monotonic() - started

    async def forget(self) -> None:
        """As if no job had ever been."""
        async with administer(self.cloned.admin_url) as admin:
            await admin.execute("delete from daira.jobs")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The workers stand still, as a whole: their leases and connections stay."""
        for worker in self.workers:
            worker.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for worker in self.workers:
                worker.send_signal(signal.SIGCONT)

    async def verify(self, count: int) -> None:
        """Every job is done, by one attempt that succeeded; none failed, none was lost, none applied twice."""
        async with administer(self.cloned.admin_url) as admin:
            states = await admin.fetch("select state, count(*) as n from daira.jobs group by 1")
            ends = await admin.fetch(
                "select job_id, count(*) filter (where outcome = 'done') as done from daira.job_attempts group by 1"
            )
            failures = await admin.fetchval("select sum(failures) from daira.jobs")
        assert {row["state"]: row["n"] for row in states} == {"done": count}
        assert Counter(row["done"] for row in ends) == {1: count}
        assert failures == 0


@asynccontextmanager
async def cluster(
    cloned: Cloned, *, queue_url: str, workers: int = 4, lanes: str = "ocr=32", **settings: str
) -> AsyncIterator[Cluster]:
    env = environment(
        DAIRA_DATABASE_URL=cloned.app_url,
        DAIRA_QUEUE_URL=queue_url,
        DAIRA_BLOB_URL="memory://",
        DAIRA_ROLE="worker",
        DAIRA_OCR="null",
        DAIRA_LANES=lanes,
        DAIRA_SWEEP_SECONDS="5",
        **settings,
    )
    processes = [
        subprocess.Popen([sys.executable, "-m", "tests.chaos.worker"], cwd=ROOT, env=env) for _ in range(workers)
    ]
    try:
        yield Cluster(cloned=cloned, workers=processes)
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(timeout=60)


async def ring_all(doorbell: Doorbell, rings: Sequence[Ring], *, times: int = 1) -> None:
    for _ in range(times):
        for start in range(0, len(rings), 500):
            await doorbell.ring(rings[start : start + 500])
