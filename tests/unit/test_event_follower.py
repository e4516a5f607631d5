"""A follower: what it is told can be taken when a window is whole, and is kept within bounds."""

import asyncio

import pytest

from app.domain.changes import Position
from app.domain.jobs import Job, JobState, Progress
from app.services.events import follower as following
from app.services.events.follower import ReceivedChanges, Subscription
from tests.support.rig import Rig

REACHED = Progress(done=1, total=2, unit="page")


async def heard_by(follower: Subscription) -> ReceivedChanges | None:
    return await follower.listen(at_most=0, stopping=asyncio.Event())


async def joined(job: Job | None = None) -> Subscription:
    follower = Subscription(None if job is None else job.id, progress=True)
    follower.join(Position("1"))
    return follower


@pytest.fixture
async def jobs(rig: Rig) -> list[Job]:
    tenant = await rig.tenant()
    return [await rig.enqueue(tenant) for _ in range(3)]


async def test_nothing_is_taken_before_the_window_is_whole(jobs: list[Job]) -> None:
    """Taken in the middle, what was dropped for a slow reader would lie beyond what it reads again."""
    follower = await joined()
    follower.tell_progress({jobs[0].id: REACHED})
    follower.tell(jobs[1:2])
    assert await heard_by(follower) is None
    follower.tell(jobs[2:])
    follower.reach(Position("2"))
    heard = await heard_by(follower)
    assert heard is not None
    assert (list(heard.jobs), dict(heard.progress)) == (jobs[1:], {jobs[0].id: REACHED})
    assert (heard.since, heard.upto) == ("1", "2")
    assert await heard_by(follower) is None


async def test_a_job_is_told_once_and_as_it_is_now(jobs: list[Job], rig: Rig) -> None:
    follower = await joined()
    follower.tell(jobs)
    follower.tell_progress({jobs[0].id: REACHED})
    await rig.cancel(jobs[0])
    follower.tell([await rig.again(jobs[0])])
    follower.reach(Position("2"))
    heard = await heard_by(follower)
    assert heard is not None
    assert [job.id for job in heard.jobs] == [jobs[1].id, jobs[2].id, jobs[0].id]
    assert heard.jobs[-1].state is JobState.CANCELLED
    assert heard.progress == {}, "it is no longer running"


async def test_of_more_than_can_be_kept_nothing_is(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "MOST_UNTAKEN", 2)
    follower = await joined()
    follower.tell(jobs[:1])
    follower.reach(Position("2"))
    follower.tell(jobs[1:])
    follower.reach(Position("3"))
    heard = await heard_by(follower)
    assert heard is not None
    assert (heard.missed, list(heard.jobs), heard.since, heard.upto) == (True, [], "1", "3")


async def test_who_follows_one_job_hears_of_no_other(jobs: list[Job]) -> None:
    follower = await joined(jobs[0])
    follower.tell(jobs[1:])
    follower.tell_progress({jobs[1].id: REACHED})
    follower.reach(Position("2"))
    assert await heard_by(follower) is None
    follower.tell(jobs)
    follower.reach(Position("3"))
    heard = await heard_by(follower)
    assert heard is not None
    assert list(heard.jobs) == jobs[:1]
    assert heard.since == "1"
