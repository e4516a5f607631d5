"""Postgres goes away under running workers, for a moment or for longer, and comes back: nothing is lost or done twice.

Run: ./daira test -m slow tests/chaos/test_outages.py -n0
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import asyncpg
import pytest

from app.adapters.postgres import doorbell as listener_module
from app.adapters.postgres.doorbell import PostgresDoorbell
from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.doorbells import Ring
from app.embedded.server import EmbeddedPostgres
from app.ports.doorbell import DoorbellDelivery
from tests.chaos.cluster import Cluster, cluster, ring_all
from tests.chaos.servers import OwnServer
from tests.support.folders import open_folder
from tests.support.service import using, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BACK = 5
"""Seconds after the server's return within which new work has started."""


@asynccontextmanager
async def own_server() -> AsyncIterator[OwnServer]:
    with open_folder() as folder:
        postgres = EmbeddedPostgres(folder / "pg", grace=timedelta(seconds=0))
        server = OwnServer(postgres)
        await server.start()
        await server.prepare()
        try:
            yield server
        finally:
            postgres.close()
            wait_until(lambda: not using(folder), seconds=30)


@pytest.mark.parametrize("away", [0, 20], ids=["a moment", "20 seconds"])
async def test_jobs_survive_a_crash_of_the_database_and_new_work_starts_soon_after(away: int) -> None:
    async with own_server() as server:
        engine = PostgresEngine(server.cloned.app_url, pool_size=2, name="test")
        doorbell = PostgresDoorbell(engine, lane="ocr", listen_url=server.cloned.app_url, dropped=lambda _: None)
        settings = {"WORK_SECONDS": "0.1", "DAIRA_LEASE_SECONDS": "10"}
        async with cluster(server.cloned, queue_url="", workers=2, **settings) as run:
            await ring_all(doorbell, await run.enqueue(2_000, tenants=20))
            while await run.done() < 500:
                await asyncio.sleep(0.05)
            await server.kill()
            await asyncio.sleep(away)
            await server.start()
            back = time.monotonic()
            before = await run.done()
            while await run.done() <= before:
                assert time.monotonic() < back + BACK, "no job has ended since the server is back"
                await asyncio.sleep(0.05)
            print(f"\nwork went on {time.monotonic() - back:.1f} s after the server was back")  # noqa: T201
            await run.until_done(2_000, seconds=120)
            assert [worker.poll() for worker in run.workers] == [None, None]
            await run.verify(2_000)
        await doorbell.close()
        await engine.close()


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Somebody who waits for a bell, on a connection that listens."""

    doorbell: PostgresDoorbell
    admin: asyncpg.Connection
    backend: int
    """Process of the server's that speaks to the listener."""
    waiting: asyncio.Task[list[DoorbellDelivery]]
    ring: Ring

    async def heard(self) -> float:
        """Seconds from the ring to its delivery."""
        started = time.monotonic()
        await self.doorbell.ring([self.ring])
        (delivery,) = await self.waiting
        assert delivery.ring == self.ring
        return time.monotonic() - started


@asynccontextmanager
async def listening() -> AsyncIterator[Listening]:
    async with own_server() as server, administer(server.cloned.admin_url) as admin:
        engine = PostgresEngine(server.cloned.app_url, pool_size=2, name="test")
        doorbell = PostgresDoorbell(engine, lane="ocr", listen_url=server.cloned.app_url, dropped=lambda _: None)
        (ring,) = await Cluster(cloned=server.cloned, workers=[]).enqueue(1, tenants=1)
        waiting = asyncio.create_task(doorbell.answer(limit=1, wait=timedelta(seconds=30)))
        listener = "select pid from pg_stat_activity where application_name = 'daira-listen'"
        async with asyncio.timeout(10):
            while (backend := await admin.fetchval(listener)) is None:
                await asyncio.sleep(0.05)
        yield Listening(doorbell=doorbell, admin=admin, backend=backend, waiting=waiting, ring=ring)
        await doorbell.close()
        await engine.close()


async def test_a_listener_that_is_cut_off_hears_again_within_five_seconds() -> None:
    async with listening() as listener:
        assert await listener.admin.fetchval("select pg_terminate_backend($1)", listener.backend)
        assert await listener.heard() < BACK


async def test_a_listener_that_hears_nothing_any_more_is_stood_in_for_within_five_seconds() -> None:
    """As behind a network that drops its packets: the connection is there, and silent."""
    async with listening() as listener:
        os.kill(listener.backend, signal.SIGSTOP)
        try:
            assert await listener.heard() < BACK + 0.5
        finally:
            os.kill(listener.backend, signal.SIGCONT)


async def test_a_ping_that_is_lost_brings_another_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "PING_EVERY", 0.2)
    monkeypatch.setattr(listener_module, "PING_TIMEOUT", 0.3)
    async with listening() as listener:
        os.kill(listener.backend, signal.SIGSTOP)
        try:
            others = "select count(*) from pg_stat_activity where application_name = 'daira-listen' and pid <> $1"
            async with asyncio.timeout(10):
                while not await listener.admin.fetchval(others, listener.backend):
                    await asyncio.sleep(0.05)
            assert await listener.heard() < 1
        finally:
            os.kill(listener.backend, signal.SIGCONT)
