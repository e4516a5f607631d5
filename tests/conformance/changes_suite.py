"""`Changes`: what is new since a position, in the order of commits, each change once and none too few."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta

import pytest

from app.domain.changes import ChangeWindow, Position
from app.domain.ids import JobId, TenantId
from app.domain.jobs import Job, JobState, Progress
from app.domain.leases import LeaseBeat
from tests.support.rig import LEASE, SECOND, Rig, done, fail, new_job, release, retry, ring_of

Told = tuple[JobId, JobState]


class Boom(Exception):
    """What goes wrong in the middle of a transaction."""


async def position(rig: Rig, tenant: TenantId) -> Position:
    async with rig.database.begin(tenant) as tx:
        return await tx.changes.now()


class Reader:
    """Who follows a tenant's changes, from a position on."""

    def __init__(self, rig: Rig, tenant: TenantId, since: Position) -> None:
        self._rig = rig
        self._tenant = tenant
        self.since = since

    async def pages(self, *, of: set[JobId] | None = None, limit: int = 100) -> AsyncIterator[list[Told]]:
        window: ChangeWindow | None = ChangeWindow(since=self.since)
        while window:
            async with self._rig.database.begin(self._tenant) as tx:
                news = await tx.changes.within(window, of=of, limit=limit)
            assert news is not None, "the position is not known"
            assert len(news.jobs) <= limit
            yield [(job.id, job.state) for job in news.jobs]
            window, self.since = news.rest, self.since if news.rest else news.upto

    async def told(self, *, of: set[JobId] | None = None, limit: int = 100) -> list[Told]:
        return [told async for page in self.pages(of=of, limit=limit) for told in page]


async def a_reader(rig: Rig, tenant: TenantId) -> Reader:
    return Reader(rig, tenant, await position(rig, tenant))


async def standing(rig: Rig, tenant: TenantId, *, limit: int = 100, of: set[JobId] | None = None) -> list[Job]:
    jobs: list[Job] = []
    after = None
    async with rig.database.begin(tenant) as tx:
        upto = await tx.changes.now()
        while True:
            page = await tx.changes.standing(upto=upto, of=of, after=after, limit=limit)
            jobs += page.jobs
            after = page.rest
            if after is None:
                return jobs


class ChangesSuite:
    BESIDE_ONE_ANOTHER = True
    """Whether two transactions of a tenant can write at one time."""

    async def test_every_change_of_state_is_told_once_and_as_what_it_led_to(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        reader = await a_reader(rig, tenant)
        assert await reader.told() == []
        job = await rig.enqueue(tenant)
        assert await reader.told() == [(job.id, JobState.QUEUED)]
        for end in (retry, release):
            lease = await rig.lease(job)
            assert await reader.told() == [(job.id, JobState.CLAIMED)]
            await rig.settle(end(lease))
            assert await reader.told() == [(job.id, JobState.QUEUED)]
            await rig.advance(SECOND)
        await rig.lease(job)
        assert await reader.told() == [(job.id, JobState.CLAIMED)]
        await rig.expire(job)
        assert await reader.told() == [(job.id, JobState.QUEUED)]
        await rig.settle(done(await rig.lease(job)))
        assert await reader.told() == [(job.id, JobState.DONE)]
        assert await reader.told() == []

    async def test_an_end_is_told_however_a_job_comes_to_it(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        ends: dict[JobId, JobState] = {}
        reader = await a_reader(rig, tenant)
        for end, state in ((done, JobState.DONE), (fail, JobState.FAILED)):
            job = await rig.enqueue(tenant)
            await rig.settle(end(await rig.lease(job)))
            ends[job.id] = state
        waiting, running, lost = [await rig.enqueue(tenant) for _ in range(3)]
        await rig.cancel(waiting)
        lease = await rig.lease(running)
        await rig.cancel(running)
        await rig.settle(fail(lease))
        await rig.lease(lost)
        await rig.cancel(lost)
        await rig.expire(lost)
        ends |= dict.fromkeys((waiting.id, running.id, lost.id), JobState.CANCELLED)
        assert dict(await reader.told()) == ends

    async def test_a_sign_of_life_and_a_wish_are_no_change(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        lease = await rig.lease(job := await rig.enqueue(tenant))
        later = await rig.enqueue(tenant, run_in=timedelta(minutes=1))
        reader = await a_reader(rig, tenant)
        progress = Progress(done=1, total=2, unit="page")
        await rig.leases.beat([LeaseBeat(lease=lease, progress=progress)], lease=LEASE)
        await rig.cancel(job)
        await rig.claim(ring_of(later))
        await rig.sweeps.sweep([tenant], limit=10)
        assert await reader.told() == []

    async def test_what_changed_several_times_is_told_once_as_it_is(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        reader = await a_reader(rig, tenant)
        job = await rig.enqueue(tenant)
        await rig.settle(done(await rig.lease(job)))
        assert await reader.told() == [(job.id, JobState.DONE)]

    async def test_a_rolled_back_change_is_none(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        reader = await a_reader(rig, tenant)
        with suppress(Boom):
            async with rig.database.begin(tenant) as tx:
                await tx.jobs.add(new_job())
                raise Boom
        assert await reader.told() == []

    async def test_a_window_is_read_in_pages_that_neither_overlap_nor_leave_out(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        reader = await a_reader(rig, tenant)
        async with rig.database.begin(tenant) as tx:
            together = [new_job() for _ in range(5)]
            for job in together:
                assert await tx.jobs.add(job)
        others = [await rig.enqueue(tenant) for _ in range(2)]
        told = await reader.told(limit=2)
        assert [identity for identity, _ in told] == [job.id for job in together] + [job.id for job in others]
        assert await reader.told() == []

    async def test_what_changes_between_two_pages_is_told_once_and_later(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        reader = await a_reader(rig, tenant)
        jobs = [await rig.enqueue(tenant) for _ in range(4)]
        pages = reader.pages(limit=2)
        told = await anext(pages)
        await rig.settle(done(await rig.lease(jobs[3])))
        await rig.settle(done(await rig.lease(jobs[0])))
        new = await rig.enqueue(tenant)
        told += [each async for page in pages for each in page]
        assert told == [(job.id, JobState.QUEUED) for job in jobs[:3]]
        assert await reader.told() == [
            (jobs[3].id, JobState.DONE),
            (jobs[0].id, JobState.DONE),
            (new.id, JobState.QUEUED),
        ]

    async def test_of_some_jobs_alone(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        reader = await a_reader(rig, tenant)
        mine, other = await rig.enqueue(tenant), await rig.enqueue(tenant)
        assert await reader.told(of={mine.id}) == [(mine.id, JobState.QUEUED)]
        await rig.settle(done(await rig.lease(other)))
        assert await reader.told(of={mine.id}) == []

    async def test_nothing_of_another_tenant_is_told(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        readers = [await a_reader(rig, acme), await a_reader(rig, bolt)]
        theirs = await rig.enqueue(bolt)
        await rig.lease(theirs)
        assert await readers[0].told() == []
        assert await readers[0].told(of={theirs.id}) == []
        assert await readers[1].told() == [(theirs.id, JobState.CLAIMED)]
        assert await standing(rig, acme, of={theirs.id}) == []
        async with rig.database.begin(acme) as tx:
            assert await tx.changes.states([theirs.id]) == {}
            assert await tx.changes.running() == {}

    async def test_two_that_commit_in_the_other_order_are_both_told_once(self, rig: Rig) -> None:
        if not self.BESIDE_ONE_ANOTHER:
            pytest.skip("in this store the writers of a tenant come one after another")
        tenant = await rig.tenant()
        reader = await a_reader(rig, tenant)
        first, second = new_job(), new_job()
        async with rig.database.begin(tenant) as slow:
            assert await slow.jobs.add(first)
            async with rig.database.begin(tenant) as quick:
                assert await quick.jobs.add(second)
            assert await reader.told() == [(second.id, JobState.QUEUED)]
        assert await reader.told() == [(first.id, JobState.QUEUED)]
        assert await reader.told() == []

    async def test_a_writer_that_stays_open_delays_nobody(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        reader = await a_reader(rig, acme)
        async with rig.database.begin(acme if self.BESIDE_ONE_ANOTHER else bolt) as long:
            assert await long.jobs.add(open_job := new_job())
            for _ in range(3):
                job = await rig.enqueue(acme)
                assert await reader.told() == [(job.id, JobState.QUEUED)]
        told = await reader.told()
        assert told == ([(open_job.id, JobState.QUEUED)] if self.BESIDE_ONE_ANOTHER else [])

    async def test_who_goes_on_from_a_kept_position_is_told_each_change_once(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        reader = await a_reader(rig, tenant)
        told: list[Told] = []
        for _ in range(20):
            writing = asyncio.gather(*(rig.enqueue(tenant) for _ in range(5)))
            # Each time as another process would that knows the text alone.
            reader = Reader(rig, tenant, Position(str(reader.since)))
            told += await reader.told(limit=3)
            await writing
        told += await reader.told()
        assert len(told) == len(set(told)) == 100

    @pytest.mark.parametrize(
        "text", ["", "nonsense", "-1", "9" * 200, "0.0.", "ffffffffffffff.0.", "1.1.9", "é", "\x00"]
    )
    async def test_what_is_no_position_of_this_store_is_known_as_such(self, rig: Rig, text: str) -> None:
        tenant = await rig.tenant()
        await rig.enqueue(tenant)
        async with rig.database.begin(tenant) as tx:
            assert await tx.changes.within(ChangeWindow(since=Position(text)), limit=10) is None

    async def test_the_standing_are_the_live_jobs_in_pages(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        jobs = [await rig.enqueue(tenant) for _ in range(6)]
        await rig.settle(done(await rig.lease(jobs[1])))
        await rig.cancel(jobs[2])
        await rig.lease(jobs[4])
        found = await standing(rig, tenant, limit=2)
        assert [job.id for job in found] == [jobs[n].id for n in (0, 3, 4, 5)]
        assert found[2] == await rig.again(jobs[4])
        assert [job.state for job in await standing(rig, tenant, of={jobs[1].id})] == [JobState.DONE]

    async def test_the_standing_leave_out_what_has_changed_since(self, rig: Rig) -> None:
        """It is told as a change: nobody is told of it twice."""
        tenant = await rig.tenant()
        old, later = await rig.enqueue(tenant), await rig.enqueue(tenant)
        reader = await a_reader(rig, tenant)
        await rig.lease(later)
        new = await rig.enqueue(tenant)
        async with rig.database.begin(tenant) as tx:
            page = await tx.changes.standing(upto=reader.since, limit=10)
        assert [job.id for job in page.jobs] == [old.id]
        assert await reader.told() == [(later.id, JobState.CLAIMED), (new.id, JobState.QUEUED)]

    async def test_the_running_tell_how_far_they_are(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        jobs = [await rig.enqueue(tenant) for _ in range(4)]
        leases = [await rig.lease(job) for job in jobs[:3]]
        steps = [Progress(done=n, total=9, unit="page") for n in range(2)]
        pulses = [LeaseBeat(lease=lease, progress=step) for lease, step in zip(leases, steps, strict=False)]
        await rig.leases.beat(pulses, lease=LEASE)
        async with rig.database.begin(tenant) as tx:
            assert await tx.changes.running() == {jobs[0].id: steps[0], jobs[1].id: steps[1]}
            assert await tx.changes.running(of={jobs[1].id, jobs[3].id}) == {jobs[1].id: steps[1]}
        await rig.settle(done(leases[0]))
        async with rig.database.begin(tenant) as tx:
            assert await tx.changes.running() == {jobs[1].id: steps[1]}

    async def test_states_are_told_without_those_that_are_gone(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        gone, there = await rig.enqueue(tenant, document_id=document.id), await rig.enqueue(tenant)
        await rig.remove(document)
        async with rig.database.begin(tenant) as tx:
            assert await tx.changes.states([gone.id, there.id]) == {there.id: JobState.QUEUED}
