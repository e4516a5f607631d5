"""Losing, doubling and delaying every bell changes nothing but time: 5,000 jobs of 50 tenants, 4 worker processes.

Run: ./daira test -m slow tests/chaos/test_delivery.py -n0 -s
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from tests.chaos.cluster import Cluster, cluster, ring_all
from tests.chaos.queues import AWS, QUEUES, Queue
from tests.support.databases import Databases

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

JOBS, TENANTS, WORKERS, WARM_UP = 5_000, 50, 4, 16
AWAY = 20
"""Seconds without the queue's server."""

LONGEST = 180
"""Seconds for one run; an undisturbed one takes a tenth of it."""


async def undisturbed(run: Cluster, _queue: Queue) -> None:
    await run.until_done(JOBS, seconds=LONGEST)


async def wiped(run: Cluster, queue: Queue) -> None:
    await run.until_done(JOBS // 2, seconds=LONGEST)
    await queue.wipe()
    await run.until_done(JOBS, seconds=LONGEST)


async def cut_off(run: Cluster, queue: Queue) -> None:
    await run.until_done(JOBS // 2, seconds=LONGEST)
    await queue.stop()
    await asyncio.sleep(AWAY)
    await queue.start()
    await run.until_done(JOBS, seconds=LONGEST)


@pytest.mark.parametrize("adapter", QUEUES)
async def test_bells_that_are_lost_tripled_or_out_of_reach_cost_time_alone(
    adapter: str, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    calm = await _time(adapter, databases, undisturbed)
    print(f"\n{adapter}, {JOBS:,} jobs: undisturbed {calm:.2f} s")  # noqa: T201
    ratios = {
        "wiped at half time": await _time(adapter, databases, wiped) / calm,
        "every bell three times": await _time(adapter, databases, undisturbed, times=3) / calm,
        f"server away for {AWAY} s, which are not counted": (await _time(adapter, databases, cut_off) - AWAY) / calm,
    }
    for name, ratio in ratios.items():
        print(f"{adapter}: {name}: {ratio:.2f} × undisturbed")  # noqa: T201
    assert all(ratio <= most for ratio, most in zip(ratios.values(), [2, 1.5, 2], strict=True)), ratios


async def _time(
    adapter: str, databases: Databases, disturb: Callable[[Cluster, Queue], Awaitable[None]], *, times: int = 1
) -> float:
    """Seconds from when the workers hear the first of all bells to the end of the last job."""
    async with (
        databases.clone() as cloned,
        QUEUES[adapter](cloned) as queue,
        cluster(cloned, queue_url=queue.url, workers=WORKERS, **queue.settings) as run,
    ):
        # A few jobs for the workers to be up and listening.
        await ring_all(queue.doorbell, await run.enqueue(WARM_UP, tenants=TENANTS))
        await run.until_done(WARM_UP, seconds=LONGEST)
        await run.forget()
        with run.paused():
            await ring_all(queue.doorbell, await run.enqueue(JOBS, tenants=TENANTS), times=times)
        started = time.monotonic()
        await disturb(run, queue)
        took = time.monotonic() - started
        await run.verify(JOBS)
        return took
