"""Postgres fails over under a running service: the primary is gone, or takes no writes, and its standby is promoted.

Each commit is on the standby before it is answered. No upload that was answered 202 is lost, `/readyz` says so while no
server takes writes, and work goes on without a restart.

Run: ./daira test tests/chaos/test_postgres_failover.py -n0 -s (ten in a row: -m slow)
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from app.adapters.postgres.engine import administer
from tests.chaos.failover import BACK, WORKERS, Site, site
from tests.support.postgres_pair import PostgresPair, of_one, postgres_pair
from tests.support.service import run

NOTICED = 10
"""Seconds within which every process says that the database takes no writes."""

IN_FLIGHT = 1
"""Seconds for which a fenced primary is left to finish the transactions that had begun."""

MORE_THAN_A_LEASE = 120
"""Seconds within which a job is done whose worker lost the database while it was settled."""

UNENDED = "select state, count(*) as n from daira.jobs where state <> 'done' group by 1"
TWICE = "select job_id from daira.job_attempts where outcome = 'done' group by 1 having count(*) > 1"
LISTENING = "select from pg_stat_activity where application_name = 'daira-listen'"
DONE = "select id::text from daira.jobs where state = 'done'"


@pytest.fixture
async def pair() -> AsyncIterator[PostgresPair]:
    async with postgres_pair() as opened:
        yield opened


async def crashed(pair: PostgresPair) -> None:
    await pair.crash()


async def fenced(pair: PostgresPair) -> None:
    await pair.fence()
    await asyncio.sleep(IN_FLIGHT)


async def fail_over(site: Site, pair: PostgresPair, *, lose: Callable[[PostgresPair], Awaitable[None]]) -> float:
    """One failover under load. Returns the seconds until the service is back."""
    before = len(site.answered)
    async with site.uploading():
        await asyncio.sleep(1)
        listening = await listeners(pair)
        assert listening >= WORKERS
        await lose(pair)
        await site.all_are(503, seconds=NOTICED)
        for process in site.processes:
            status, text = await asyncio.to_thread(process.readiness)
            assert (status, "database" in text) == (503, True), text
        await pair.promote()
        moved = time.monotonic()
        await site.all_are(200, seconds=BACK)
        await site.done_soon()
        back = time.monotonic() - moved
        async with asyncio.timeout(BACK):
            while await listeners(pair) < listening:
                await asyncio.sleep(0.1)
        # A primary that was only fenced is still there until now.
        await pair.follow()
        await site.done_soon()
    assert back < BACK
    assert len(site.answered) - before > 10
    print(f"\n{lose.__name__}: {len(site.answered) - before} uploads, {site.refused} refused, back {back:.1f} s")  # noqa: T201
    return back


async def listeners(pair: PostgresPair) -> int:
    """Connections that workers open once and keep, on the primary."""
    async with administer(of_one(pair.primary)) as admin:
        return len(await admin.fetch(LISTENING))


async def verify(site: Site, pair: PostgresPair) -> None:
    """Every upload that was answered 202 is there and done, once. No process has ended."""
    async with administer(pair.of_both().admin_url) as admin:
        async with asyncio.timeout(MORE_THAN_A_LEASE):
            while unended := await admin.fetch(UNENDED):
                assert Counter(row["state"] for row in unended).keys() <= {"queued", "claimed"}, unended
                await asyncio.sleep(0.1)
        done = {row["id"] for row in await admin.fetch(DONE)}
        assert [job["id"] for job in site.answered if job["id"] not in done] == []
        assert await admin.fetch(TWICE) == []
        attempts = Counter(row["attempts"] for row in await admin.fetch("select attempts from daira.jobs"))
        print(f"attempts of the {attempts.total()} jobs: {dict(attempts)}")  # noqa: T201
    for each in site.processes:
        assert each.process.poll() is None, "it ended"


async def doctor_names_the_standby(pair: PostgresPair, folder: Path) -> None:
    ended = await asyncio.to_thread(run, "doctor", cwd=folder, DAIRA_DATABASE_URL=of_one(pair.standby))
    assert ended.returncode != 0
    assert "the database is a standby" in ended.stdout + ended.stderr, ended.stdout + ended.stderr


async def test_a_crashed_primary_loses_no_upload_and_needs_no_restart(pair: PostgresPair, tmp_path: Path) -> None:
    await doctor_names_the_standby(pair, tmp_path)
    async with site(pair.of_both().app_url, tmp_path, DAIRA_LEASE_SECONDS="6", DAIRA_SWEEP_SECONDS="2") as running:
        await fail_over(running, pair, lose=crashed)
        await verify(running, pair)
    await doctor_names_the_standby(pair, tmp_path)


async def test_a_primary_that_was_fenced_and_stays_is_left_without_a_restart(
    pair: PostgresPair, tmp_path: Path
) -> None:
    async with site(pair.of_both().app_url, tmp_path, DAIRA_LEASE_SECONDS="6", DAIRA_SWEEP_SECONDS="2") as running:
        await fail_over(running, pair, lose=fenced)
        await verify(running, pair)


@pytest.mark.slow
async def test_ten_failovers_of_postgres_in_a_row(pair: PostgresPair, tmp_path: Path) -> None:
    async with site(pair.of_both().app_url, tmp_path) as running:
        backs = [await fail_over(running, pair, lose=lose) for lose in (crashed, fenced) * 5]
        await verify(running, pair)
        print(f"{len(running.answered)} uploads, slowest return {max(backs):.1f} s")  # noqa: T201
