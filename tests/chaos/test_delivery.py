"""Losing, doubling and delaying every bell changes nothing but time: 5,000 jobs of 50 tenants, 4 worker processes.

Run: ./daira test -m slow tests/chaos/test_delivery.py -n0 -s
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from app.adapters.postgres.doorbell import PostgresDoorbell
from app.adapters.postgres.engine import Engine, administer
from app.ports.doorbell import Doorbell
from tests.chaos.fleet import Fleet, fleet, ring_all
from tests.support.databases import Cloned, Databases

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

JOBS, TENANTS, WORKERS = 5_000, 50, 4
LONGEST = 180
"""Seconds for one run; an undisturbed one takes a tenth of it."""


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue on a server of its own, and what can be done to it."""

    url: str
    doorbell: Doorbell
    wipe: Callable[[], Awaitable[object]]
    settings: dict[str, str]


@asynccontextmanager
async def postgres_queue(cloned: Cloned) -> AsyncIterator[Queue]:
    async with AsyncExitStack() as stack:
        engine = Engine(cloned.app_url, pool_size=2, name="test")
        stack.push_async_callback(engine.close)
        doorbell = PostgresDoorbell(engine, lane="ocr", listen_url=cloned.app_url, dropped=lambda _: None)
        stack.push_async_callback(doorbell.close)

        async def wipe() -> None:
            async with administer(cloned.app_url) as connection:
                await connection.execute("delete from daira.doorbells")

        yield Queue(url=cloned.app_url, doorbell=doorbell, wipe=wipe, settings={})


QUEUES = {"postgres": postgres_queue}


@pytest.mark.parametrize("adapter", QUEUES)
async def test_a_wipe_at_half_time_and_every_bell_three_times(adapter: str, databases: Databases) -> None:
    async def undisturbed(run: Fleet, queue: Queue) -> None:
        await ring_all(queue.doorbell, await run.enqueue(JOBS, tenants=TENANTS))

    async def wiped(run: Fleet, queue: Queue) -> None:
        await undisturbed(run, queue)
        while await run.done() < JOBS // 2:
            await asyncio.sleep(0.02)
        await queue.wipe()

    async def tripled(run: Fleet, queue: Queue) -> None:
        await ring_all(queue.doorbell, await run.enqueue(JOBS, tenants=TENANTS), times=3)

    took = {}
    for name, disturb in {"undisturbed": undisturbed, "wiped": wiped, "tripled": tripled}.items():
        took[name] = await _time(adapter, databases, disturb)
        print(f"\n{adapter} {name}: {took[name]:.2f} s, {took[name] / took['undisturbed']:.2f} × undisturbed")  # noqa: T201
    assert took["wiped"] <= 2 * took["undisturbed"]
    assert took["tripled"] <= 1.5 * took["undisturbed"]


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
