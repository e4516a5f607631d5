"""Redis fails over under a running service: the demoted server goes on answering, new connections lead to the new one.

No upload is refused or lost, `/readyz` says so while no server takes writes, and work goes on without a restart.

Run: ./daira test tests/chaos/test_redis_failover.py -n0 -s (ten in a row: -m slow)
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.chaos.failover import BACK, Site, site
from tests.support.databases import Cloned
from tests.support.endpoint import endpoint
from tests.support.service import ended
from tests.support.valkey import Valkey, ValkeyPair, running_valkey

DEMOTED = 2
"""Seconds for which the address leads to a server that takes no writes."""

REPEATING = {"ring_failed", "consumer_waits", "acknowledge_failed"}


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Valkey, Valkey]]:
    with running_valkey() as first, running_valkey() as second:
        yield first, second


@pytest.fixture
async def pair(servers: tuple[Valkey, Valkey]) -> AsyncIterator[ValkeyPair]:
    first, second = servers
    await first.follow(None)
    await second.follow(first)
    async with endpoint(first.port) as opened:
        yield ValkeyPair(first=first, second=second, endpoint=opened)


async def fail_over(site: Site, pair: ValkeyPair) -> float:
    """One failover under load. Returns the seconds until the service is back."""
    first = pair.endpoint.target == pair.first.port
    old, new = (pair.first, pair.second) if first else (pair.second, pair.first)
    before = len(site.answered)
    async with site.uploading():
        await asyncio.sleep(1)
        await pair.demote(old)
        # Not ready, though the server answers: this is what takes an instance that can't do its work out of service.
        await site.all_are(503, seconds=5)
        assert "the queue takes no writes" in (await asyncio.to_thread(site.processes[0].readiness))[1]
        await asyncio.sleep(DEMOTED)
        pair.endpoint.target = new.port
        moved = time.monotonic()
        await site.all_are(200, seconds=BACK)
        await site.done_soon()
        back = time.monotonic() - moved
    assert back < BACK
    assert len(site.answered) - before > 10
    print(f"\n{len(site.answered) - before} uploads meanwhile; back {back:.1f} s after the address moved")  # noqa: T201
    return back


async def verify(site: Site) -> None:
    """Every upload was accepted and is done, by one attempt."""
    assert site.refused == 0

    def ends() -> Counter[tuple[object, object]]:
        with site.client() as client:
            jobs = [ended(client, job, seconds=60) for job in site.answered]
        return Counter((job["state"], job["attempts"]) for job in jobs)

    assert await asyncio.to_thread(ends) == {("done", 1): len(site.answered)}
    for each in site.processes:
        assert each.process.poll() is None, "it ended"


async def test_a_failover_loses_no_upload_and_needs_no_restart(
    cloned: Cloned, tmp_path: Path, pair: ValkeyPair
) -> None:
    async with site(cloned.app_url, tmp_path, DAIRA_QUEUE_URL=pair.url) as running:
        await fail_over(running, pair)
        await verify(running)
        for each in running.processes:
            told = Counter(f"{line['event']} {line.get('lane')}" for line in each.lines())
            assert all(count == 1 for event, count in told.items() if event.split()[0] in REPEATING), told


@pytest.mark.slow
async def test_ten_failovers_in_a_row(cloned: Cloned, tmp_path: Path, pair: ValkeyPair) -> None:
    async with site(cloned.app_url, tmp_path, DAIRA_QUEUE_URL=pair.url) as running:
        backs = [await fail_over(running, pair) for _ in range(10)]
        await verify(running)
        print(f"{len(running.answered)} uploads, slowest return {max(backs):.1f} s")  # noqa: T201
