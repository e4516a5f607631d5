"""The watcher: one look for all who follow a tenant, none where nobody does, and no connection between looks."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from app.domain.errors import Unavailable
from app.domain.ids import TenantId, tenant_id
from app.domain.jobs import Job, JobState
from app.ports.database import Database
from app.services.events import stream as streams
from app.services.events.open import EventService
from app.services.events.watcher import LONGEST_PAUSE, SHORTEST_PAUSE, ChangePollers
from app.services.jobs import JobService
from tests.support.rig import Rig, done
from tests.unit.bench import Bench
from tests.unit.waiting import until

MINUTE = timedelta(minutes=1)


class Counted:
    """A database that counts its transactions, and can be away."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.begun: Counter[TenantId] = Counter()
        self.open = 0
        self.most_open = 0
        self.away = False

    @asynccontextmanager
    async def begin(self, tenant: TenantId) -> AsyncIterator[Any]:
        if self.away:
            raise Unavailable("away for a while")
        self.begun[tenant] += 1
        async with self._inner.begin(tenant) as tx:
            self.open += 1
            self.most_open = max(self.most_open, self.open)
            try:
                # As a database does, it takes a while.
                await asyncio.sleep(0)
                yield tx
            finally:
                self.open -= 1


@pytest.fixture
def database(rig: Rig) -> Counted:
    return Counted(rig.database)


@pytest.fixture
def watched(database: Counted) -> ChangePollers:
    return ChangePollers(database)


@pytest.fixture
def jobs(rig: Rig, database: Counted, watched: ChangePollers) -> JobService:
    return JobService(
        database=database,
        ringing=Bench(rig=rig).ringing,
        languages=lambda: frozenset({"eng"}),
        llm=False,
        watching=watched,
        stopping=asyncio.Event(),
    )


async def may() -> bool:
    return True


def events(database: Counted, watched: ChangePollers, *, stopping: asyncio.Event | None = None) -> EventService:
    return EventService(database=database, watching=watched, stopping=stopping or asyncio.Event(), most=1000)


def wait(jobs: JobService, job: Job) -> asyncio.Task[Any]:
    return asyncio.create_task(jobs.wait(job.tenant_id, job.id, at_most=MINUTE))


async def looks_of(database: Counted, tenant: TenantId, *, seconds: float) -> int:
    before = database.begun[tenant]
    until_then = time.monotonic() + seconds
    await until(lambda: time.monotonic() >= until_then)
    return database.begun[tenant] - before


async def test_where_nobody_listens_nobody_looks(database: Counted, watched: ChangePollers) -> None:
    tenants = [tenant_id(f"tenant-{n}") for n in range(1_000)]
    async with watched.follow(tenants[0]) as follower:
        await follower.ready(at_most=10, stopping=asyncio.Event())
    await until(lambda: not watched._watchers)
    assert sum([await looks_of(database, tenant, seconds=0) for tenant in tenants[1:]]) == 0
    assert await looks_of(database, tenants[0], seconds=3 * SHORTEST_PAUSE) == 0


async def test_two_hundred_who_wait_for_two_hundred_jobs_are_one_look(
    rig: Rig, database: Counted, jobs: JobService
) -> None:
    tenant = await rig.tenant()
    waited_for = [await rig.enqueue(tenant) for _ in range(200)]
    waiting = [wait(jobs, job) for job in waited_for]
    await until(lambda: sum(len(watcher._followers) for watcher in jobs.watching._watchers.values()) == 200)
    await until(lambda: database.begun[tenant] > 400 and database.open == 0)
    assert await looks_of(database, tenant, seconds=1) <= 12
    # Each reads its own job three times: when it comes, when it is followed, when it has ended.
    for job in waited_for:
        await rig.settle(done(await rig.lease(job)))
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*waiting)
    assert {job.state for job, _ in answers} == {JobState.DONE}
    assert database.begun[tenant] <= 3 * 200 + 60


async def test_looks_become_rare_while_nothing_happens_and_quick_again_after_news(
    rig: Rig, database: Counted, watched: ChangePollers
) -> None:
    tenant = await rig.tenant()
    async with watched.follow(tenant) as follower:
        await follower.ready(at_most=10, stopping=asyncio.Event())
        watcher = watched._watchers[tenant]
        await until(lambda: watcher._pause == LONGEST_PAUSE)
        assert await looks_of(database, tenant, seconds=1) <= 2
        await rig.enqueue(tenant)
        assert (heard := await follower.listen(at_most=10, stopping=asyncio.Event()))
        assert len(heard.jobs) == 1
        assert watcher._pause <= SHORTEST_PAUSE


async def test_jobs_that_nobody_waits_for_are_no_news(rig: Rig, watched: ChangePollers) -> None:
    tenant = await rig.tenant()
    job = await rig.enqueue(tenant)
    async with watched.follow(tenant, job.id) as follower:
        await follower.ready(at_most=10, stopping=asyncio.Event())
        watcher = watched._watchers[tenant]

        async def slow_amid_others() -> bool:
            await rig.enqueue(tenant)
            return watcher._pause == LONGEST_PAUSE

        await until(slow_amid_others)


async def test_what_this_process_does_itself_is_told_at_once(rig: Rig, watched: ChangePollers) -> None:
    tenant = await rig.tenant()
    async with watched.follow(tenant) as follower:
        await follower.ready(at_most=10, stopping=asyncio.Event())
        watcher = watched._watchers[tenant]
        await until(lambda: watcher._pause == LONGEST_PAUSE)
        await rig.enqueue(tenant)
        began = time.monotonic()
        watched.hurry(tenant)
        assert await follower.listen(at_most=10, stopping=asyncio.Event())
        assert time.monotonic() - began < LONGEST_PAUSE / 2


async def test_a_storm_of_hurries_is_few_looks(rig: Rig, database: Counted, watched: ChangePollers) -> None:
    tenant = await rig.tenant()
    async with watched.follow(tenant) as follower:
        await follower.ready(at_most=10, stopping=asyncio.Event())
        before, began = database.begun[tenant], time.monotonic()

        def hurried() -> bool:
            watched.hurry(tenant)
            return time.monotonic() - began > 0.5

        await until(hurried)
        assert database.begun[tenant] - before <= 0.5 / SHORTEST_PAUSE + 2


async def test_looks_of_many_tenants_leave_the_pool_to_others(
    rig: Rig, database: Counted, watched: ChangePollers
) -> None:
    tenants = [await rig.tenant(f"tenant-{n}") for n in range(20)]
    database.most_open = 0
    async with asyncio.TaskGroup() as group:
        for tenant in tenants:
            group.create_task(_followed_once(watched, tenant))
    assert database.most_open <= 2


async def _followed_once(watched: ChangePollers, tenant: TenantId) -> None:
    async with watched.follow(tenant) as follower:
        await follower.ready(at_most=10, stopping=asyncio.Event())


async def test_who_comes_while_the_database_is_away_is_told_so(rig: Rig, database: Counted, jobs: JobService) -> None:
    job = await rig.enqueue(await rig.tenant())
    database.away = True
    async with jobs.watching.follow(job.tenant_id, job.id) as follower:
        with pytest.raises(Unavailable):
            await follower.ready(at_most=10, stopping=asyncio.Event())


async def test_who_waits_while_the_database_is_away_goes_on_waiting(
    rig: Rig, database: Counted, jobs: JobService
) -> None:
    job = await rig.enqueue(await rig.tenant())
    waiting = wait(jobs, job)
    # Its reads of the job are over, and the second look of the watcher too.
    await until(lambda: database.begun[job.tenant_id] >= 4 and not database.open)
    database.away = True
    await until(lambda: jobs.watching._watchers[job.tenant_id]._away)
    await rig.settle(done(await rig.lease(job)))
    assert not waiting.done()
    database.away = False
    async with asyncio.timeout(10):
        assert (await waiting)[0].state is JobState.DONE


async def test_a_stream_outlives_the_databases_absence_and_tells_what_happened_meanwhile(
    rig: Rig, database: Counted, watched: ChangePollers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "AWAY", 0.01)
    tenant = await rig.tenant()
    told: list[Any] = []
    async with events(database, watched).open(tenant, job_id=None, last=None, may_go_on=may) as stream:
        assert stream is not None

        async def note() -> None:
            async for event in stream.events():
                told.append(event)  # noqa: PERF401 - the list is looked at meanwhile

        reading = asyncio.create_task(note())
        await until(lambda: len(told) == 1)
        database.away = True
        await until(lambda: watched._watchers[tenant]._away)
        job = await rig.enqueue(tenant)
        database.away = False
        await until(lambda: len(told) == 2)
        assert told[1].job.id == job.id
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_a_stream_that_is_begun_again_while_the_database_goes_waits_for_it(
    rig: Rig, database: Counted, watched: ChangePollers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "AWAY", 0.01)
    tenant = await rig.tenant()
    job = await rig.enqueue(tenant)
    async with events(database, watched).open(tenant, job_id=None, last=None, may_go_on=may) as stream:
        assert stream is not None
        database.away = True
        first = asyncio.ensure_future(anext(stream.events()))
        await asyncio.wait({first}, timeout=0.1)
        assert not first.done()
        database.away = False
        async with asyncio.timeout(10):
            event = await first
        assert event.job.id == job.id  # type: ignore[union-attr]


async def test_a_store_that_has_not_come_as_far_begins_all_streams_anew(rig: Rig, watched: ChangePollers) -> None:
    """A standby that was not quite up to date has taken over."""
    tenant = await rig.tenant()
    job = await rig.enqueue(tenant)
    async with watched.follow(tenant) as follower:
        await follower.ready(at_most=10, stopping=asyncio.Event())
        watched._watchers[tenant]._position = "999999"  # type: ignore[assignment]
        heard = await follower.listen(at_most=10, stopping=asyncio.Event())
        assert heard is not None
        assert heard.since is None
        await rig.cancel(job)
        later = await follower.listen(at_most=10, stopping=asyncio.Event())
        assert later is not None
        assert [told.state for told in later.jobs] == [JobState.CANCELLED]


async def test_a_wait_ends_soon_after_the_job(rig: Rig, jobs: JobService) -> None:
    job = await rig.enqueue(await rig.tenant())
    waiting = wait(jobs, job)
    await until(lambda: any(w._followers for w in jobs.watching._watchers.values()))
    await rig.settle(done(await rig.lease(job)))
    ended = time.monotonic()
    async with asyncio.timeout(10):
        await waiting
    assert time.monotonic() - ended <= LONGEST_PAUSE


async def test_who_gives_up_waiting_is_followed_by_nobody_and_cancels_nothing(rig: Rig, jobs: JobService) -> None:
    job = await rig.enqueue(await rig.tenant())
    waiting = wait(jobs, job)
    await until(lambda: any(w._followers for w in jobs.watching._watchers.values()))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await until(lambda: not jobs.watching._watchers)
    assert await rig.again(job) == job
