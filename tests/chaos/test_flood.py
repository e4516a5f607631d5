"""10,000 queued jobs and no worker for ten minutes: the sweeper rings each a few times, at no growing cost.

Run: ./daira test -m slow tests/chaos/test_flood.py -n0 -s
"""

import os
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from app.adapters.postgres.engine import PostgresEngine, administer
from app.adapters.postgres.sweeps import PostgresSweeps
from app.domain.doorbells import Lane, Ring
from app.ports.doorbell import DoorbellDelivery
from app.services.ringing import Ringer
from app.services.sweeping import Sweeper
from app.telemetry import Metrics
from tests.chaos.cluster import Cluster, cluster
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

JOBS, TENANTS = 10_000, 100
EVERY = timedelta(seconds=30)
TICKS = os.sysconf("SC_CLK_TCK")


class Noted:
    """A queue that nobody answers."""

    def __init__(self) -> None:
        self.rings: Counter[Ring] = Counter()

    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        assert not delay
        self.rings.update(rings)

    async def answer(self, *, limit: int, wait: timedelta) -> list[DoorbellDelivery]:
        raise NotImplementedError

    async def acknowledge(self, deliveries: Sequence[DoorbellDelivery]) -> None:
        raise NotImplementedError

    async def stop_answering(self) -> None:
        raise NotImplementedError

    async def reconnect(self) -> None:
        raise NotImplementedError

    async def ping(self) -> None:
        raise NotImplementedError


async def test_ten_minutes_without_a_worker_are_rung_for_at_most_ten_times_a_job(cloned: Cloned) -> None:
    engine = PostgresEngine(cloned.app_url, pool_size=1, name="test")
    rig = postgres_rig(cloned, engine)
    queue = Noted()
    sweeping = Sweeper(sweeps=PostgresSweeps(engine), ringing=Ringer({Lane.OCR: queue}, Metrics()), metrics=Metrics())
    rings = await Cluster(cloned=cloned, workers=[]).enqueue(JOBS, tenants=TENANTS)
    ((pid,),) = await engine.call("select pg_backend_pid()")
    costs = []
    for _ in range(timedelta(minutes=10) // EVERY):
        await rig.advance(EVERY)
        # Moving time rewrites every row, which time itself does not.
        async with administer(cloned.admin_url) as admin:
            await admin.execute("vacuum daira.jobs")
        before = _cpu(pid)
        for _worker in range(3):
            await sweeping.sweep()
        costs.append(_cpu(pid) - before)
    await engine.close()
    print(f"\nrings a job: {sorted(Counter(queue.rings.values()).items())}")  # noqa: T201
    print(f"server CPU s a pass: {' '.join(f'{cost:.2f}' for cost in costs)}")  # noqa: T201
    assert set(queue.rings) == set(rings)
    assert max(queue.rings.values()) <= 10
    # The first half minute's pass rings all of them once; no later one costs more.
    assert max(costs) <= costs[0] * 1.5
    async with cluster(cloned, queue_url="") as run:
        await run.until_done(JOBS, seconds=200)
        await run.verify(JOBS)


def _cpu(pid: int) -> float:
    """Seconds of user and system time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
