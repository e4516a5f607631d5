"""Twenty sessions at the same jobs at once, each in an order of its own: no deadlock, and each attempt ends once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from random import Random

import asyncpg
import pytest

from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.doorbells import Ring
from app.domain.jobs import AttemptOutcome, JobState
from app.domain.leases import Lease, LeaseBeat
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import KIND, LEASE, SECOND, Rig, done, memory_rig, ring_of

SESSIONS = 20
JOBS = 20
"""Of each of three tenants: unsorted, nearly every session meets another one halfway."""

WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


async def claimed(rig: Rig) -> list[Lease]:
    tenants = [await rig.tenant(name) for name in ("acme", "bolt", "cord")]
    rings = [ring_of(await rig.enqueue(tenant)) for tenant in tenants for _ in range(JOBS)]
    return await claims(rig, rings)


async def claims(rig: Rig, rings: Sequence[Ring]) -> list[Lease]:
    answers = await rig.leases.claim(rings, worker="worker", lease=LEASE, kinds=frozenset({KIND}))
    return [claim.job.lease for claim in answers if claim.job is not None]


def shuffled(leases: Sequence[Lease], *, seed: int) -> list[Lease]:
    return Random(seed).sample(leases, len(leases))  # noqa: S311 -- an order, not a secret


async def settles(rig: Rig, leases: Sequence[Lease], *, seed: int) -> list[Lease]:
    """Those that this session ended."""
    mine = shuffled(leases, seed=seed)
    answers = await rig.leases.settle([done(lease) for lease in mine])
    return [lease for lease, held in zip(mine, answers, strict=True) if held]


async def beats(rig: Rig, leases: Sequence[Lease], *, seed: int) -> list[Lease]:
    """Those that this session was told are lost; one that is being written just now may go without an answer."""
    answers = await rig.leases.beat([LeaseBeat(lease=lease) for lease in shuffled(leases, seed=seed)], lease=LEASE)
    return [beat.lease for beat in answers if not beat.held]


async def reclaims(rig: Rig, leases: Sequence[Lease], *, seed: int) -> list[Lease]:
    return await claims(rig, [Ring(lease.tenant_id, lease.job_id) for lease in shuffled(leases, seed=seed)])


async def expires(rig: Rig, leases: Sequence[Lease], *, seed: int) -> list[Lease]:
    """Those that this session's pass ended."""
    found = await rig.sweeps.sweep([lease.tenant_id for lease in shuffled(leases, seed=seed)], limit=JOBS)
    rings = [swept.ring for swept in found if swept.expired]
    return [lease for lease in leases if Ring(lease.tenant_id, lease.job_id) in rings]


async def at_once(sessions: Iterable[Awaitable[list[Lease]]]) -> list[list[Lease]]:
    answers = await asyncio.gather(*sessions, return_exceptions=True)
    assert [answer for answer in answers if isinstance(answer, BaseException)] == []
    return [answer for answer in answers if not isinstance(answer, BaseException)]


class BulkSuite:
    async def test_an_attempt_is_ended_by_one_of_many_sessions(self, rig: Rig) -> None:
        leases = await claimed(rig)
        ended = await at_once(settles(rig, leases, seed=seed) for seed in range(SESSIONS))
        assert sorted(lease for session in ended for lease in session) == sorted(leases)
        for tenant in {lease.tenant_id for lease in leases}:
            async with rig.database.begin(tenant) as tx:
                jobs = await tx.jobs.newest()
                histories = [await tx.jobs.attempts(job.id) for job in jobs]
            assert {job.state for job in jobs} == {JobState.DONE}
            assert [[entry.outcome for entry in history] for history in histories] == [[AttemptOutcome.DONE]] * JOBS

    async def test_many_sessions_beat_for_the_same_leases_and_none_is_lost(self, rig: Rig) -> None:
        leases = await claimed(rig)
        lost = await at_once(beats(rig, leases, seed=seed) for seed in range(SESSIONS))
        assert lost == [[]] * SESSIONS
        answers = await rig.leases.beat([LeaseBeat(lease=lease) for lease in leases], lease=LEASE)
        assert sorted(beat.lease for beat in answers if beat.held) == sorted(leases)

    async def test_workers_that_finish_beat_and_claim_get_along_with_sweepers(self, rig: Rig) -> None:
        leases = await claimed(rig)
        await rig.advance(LEASE + SECOND)
        kinds = (settles, beats, reclaims, expires)
        answers = await at_once(kinds[n % 4](rig, leases, seed=n) for n in range(SESSIONS))
        finished, given, lost = [[lease for answer in answers[n::4] for lease in answer] for n in (0, 2, 3)]
        assert len(finished + lost) == len({*finished, *lost})
        assert len(given) == len(set(given))
        assert {lease.job_id for lease in given} <= {lease.job_id for lease in lost}


class TestMemoryBulk(BulkSuite):
    @pytest.fixture
    def rig(self) -> Rig:
        return memory_rig()


class TestPostgresBulk(BulkSuite):
    @pytest.fixture
    async def rig(self, cloned: Cloned) -> AsyncIterator[Rig]:
        engine = PostgresEngine(cloned.app_url, pool_size=SESSIONS, name="test")
        yield postgres_rig(cloned, engine)
        assert engine.checked_out() == 0
        await engine.close()

    async def test_sessions_that_are_all_half_done_do_not_wait_for_one_another(self, rig: Rig, cloned: Cloned) -> None:
        """A row in the middle is held until all have come as far as they can: in different orders none would get on."""
        leases = await claimed(rig)
        middle = leases[len(leases) // 2].job_id
        async with administer(cloned.admin_url) as other, administer(cloned.admin_url) as watch:
            async with other.transaction():
                await other.execute("select from daira.jobs where id = $1 for update", middle)
                sessions = [asyncio.create_task(settles(rig, leases, seed=seed)) for seed in range(SESSIONS)]
                await all_wait(sessions, watch=watch)
            ended = await at_once(sessions)
        assert sorted(lease for session in ended for lease in session) == sorted(leases)


async def all_wait(sessions: Sequence[asyncio.Task[list[Lease]]], *, watch: asyncpg.Connection) -> None:
    """Until each is at a row that somebody else has locked, or over."""
    async with asyncio.timeout(30):
        while await watch.fetchval(WAITING) < sum(not session.done() for session in sessions):
            await asyncio.sleep(0.01)
