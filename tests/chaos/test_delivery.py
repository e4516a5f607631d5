"""Losing, doubling and delaying every bell changes nothing but time: 5,000 jobs of 50 tenants, 4 worker processes.

Run: ./daira test -m slow tests/chaos/test_delivery.py -n0 -s
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from tests.chaos.fleet import Fleet, fleet, ring_all
from tests.chaos.queues import AWS, QUEUES, Queue
from tests.support.databases import Databases

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

JOBS, TENANTS, WORKERS = 5_000, 50, 4
AWAY = 20
"""Seconds without the queue's server."""

LONGEST = 180
"""Seconds for one run; an undisturbed one takes a tenth of it."""


@pytest.mark.parametrize("adapter", QUEUES)
async def test_a_wiped_queue_bells_rung_three_times_and_a_queue_that_is_away(
    adapter: str, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)

    async def undisturbed(run: Fleet, queue: Queue) -> None:
        await ring_all(queue.doorbell, await run.enqueue(JOBS, tenants=TENANTS))

    async def wiped(run: Fleet, queue: Queue) -> None:
        await undisturbed(run, queue)
        while await run.done() < JOBS // 2:
            await asyncio.sleep(0.02)
        await queue.wipe()

    async def tripled(run: Fleet, queue: Queue) -> None:
        await ring_all(queue.doorbell, await run.enqueue(JOBS, tenants=TENANTS), times=3)

    async def cut_off(run: Fleet, queue: Queue) -> None:
        await undisturbed(run, queue)
        while await run.done() < JOBS // 2:
            await asyncio.sleep(0.02)
        await queue.stop()
        await asyncio.sleep(AWAY)
        await queue.start()

    took = {}
    for name, disturb in {"undisturbed": undisturbed, "wiped": wiped, "tripled": tripled, "cut off": cut_off}.items():
        took[name] = await _time(adapter, databases, disturb)
        print(f"\n{adapter} {name}: {took[name]:.2f} s, {took[name] / took['undisturbed']:.2f} × undisturbed")  # noqa: T201
    assert took["wiped"] <= 2 * took["undisturbed"]
    assert took["tripled"] <= 1.5 * took["undisturbed"]
    assert took["cut off"] - AWAY <= 2 * took["undisturbed"]


async def _time(adapter: str, databases: Databases, disturb: Callable[[Fleet, Queue], Awaitable[None]]) -> float:
    async with (
        databases.clone() as cloned,
        QUEUES[adapter](cloned) as queue,
        fleet(cloned, queue_url=queue.url, workers=WORKERS, **queue.settings) as run,
    ):
        # One job for each worker to be up and listening.
        await ring_all(queue.doorbell, await run.enqueue(WORKERS * 4, tenants=TENANTS))
        await run.until_done(WORKERS * 4, seconds=LONGEST)
        started = time.monotonic()
        await disturb(run, queue)
        await run.until_done(JOBS + WORKERS * 4, seconds=LONGEST)
        took = time.monotonic() - started
        await run.verify(JOBS + WORKERS * 4)
        return took
