"""Workers whose clocks are wrong, and step: leases and due times are the database's (T24).

Needs Debian's package `libfaketime`. Run: ./daira test -m slow tests/chaos/behaviours/test_clocks.py -n0
"""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.chaos.behaviours.environment import BEAT, LEASE, Environment, open_environment
from tests.chaos.behaviours.processes import eventually
from tests.chaos.behaviours.scenarios import side_by_side
from tests.support.databases import Databases
from tests.support.faketime import library

pytestmark = pytest.mark.slow

WRONG, FAR = 600, 40 * 86_400
"""Seconds."""

TOLERANCE = 2
"""Seconds that a start may be early or late, or a lease longer or shorter."""


async def _with_a_clock(environment: Environment, *, seconds: int) -> None:
    _step(environment, seconds=seconds)
    (worker,) = await environment.work(
        preload=str(library()),
        FAKETIME_DONT_FAKE_MONOTONIC="1",
        FAKETIME_TIMESTAMP_FILE=str(_clock(environment)),
        FAKETIME_NO_CACHE="1",
    )
    told = datetime.fromisoformat(worker.logged("service_ready")[0]["timestamp"])
    assert abs((told - datetime.now(UTC)).total_seconds() - seconds) < 60, "the clock is wrong as it should be"


def _clock(environment: Environment) -> Path:
    return environment.folder / "clock"


def _step(environment: Environment, *, seconds: int) -> None:
    _clock(environment).write_text(f"{seconds:+d}s\n")


async def _runs_by_the_databases_clock(databases: Databases, *, seconds: int) -> None:
    async with open_environment(databases) as environment:
        await _with_a_clock(environment, seconds=seconds)
        job = await environment.submit(payload={"seconds": LEASE + 2}, run_in=timedelta(seconds=4), ring=False)
        entered = time.monotonic()
        started = (await environment.mark(job)).at - entered
        assert 4 - 0.1 <= started <= 4 + TOLERANCE
        await _lease_is_right(environment)
        # Beyond the first lease, by beats alone; another worker would have it otherwise.
        await environment.work()
        done = await environment.done(job, within=LEASE + 20)
        assert (done.attempts, done.expiries) == (1, 0)
        assert len(environment.marks(job)) == 1


async def _lease_is_right(environment: Environment) -> None:
    left = await environment.fetch(
        "select extract(epoch from lease_until - clock_timestamp())::float8 from daira.jobs where state = 'claimed'"
    )
    assert left is None or LEASE - BEAT - TOLERANCE < left <= LEASE


@side_by_side
async def test_t24_a_worker_ten_minutes_ahead_starts_nothing_early_and_keeps_its_lease(databases: Databases) -> None:
    await _runs_by_the_databases_clock(databases, seconds=WRONG)


@side_by_side
async def test_t24_a_worker_ten_minutes_behind_starts_nothing_late_and_keeps_its_lease(databases: Databases) -> None:
    await _runs_by_the_databases_clock(databases, seconds=-WRONG)


@side_by_side
async def test_t24_a_worker_forty_days_ahead_starts_nothing_early_and_keeps_its_lease(databases: Databases) -> None:
    await _runs_by_the_databases_clock(databases, seconds=FAR)


@side_by_side
async def test_t24_a_worker_forty_days_behind_starts_nothing_late_and_keeps_its_lease(databases: Databases) -> None:
    await _runs_by_the_databases_clock(databases, seconds=-FAR)


@side_by_side
async def test_t24_a_clock_that_steps_back_in_the_middle_of_a_job_costs_it_nothing(databases: Databases) -> None:
    async with open_environment(databases) as environment:
        await _with_a_clock(environment, seconds=WRONG)
        job = await environment.submit(payload={"seconds": 2 * LEASE})
        started = (await environment.mark(job)).at
        await environment.work()
        await eventually(lambda: time.monotonic() > started + 2, within=5)
        _step(environment, seconds=-WRONG)
        while not environment.marks(job, "end"):
            assert time.monotonic() < started + 2 * LEASE + 20
            await _lease_is_right(environment)
        done = await environment.done(job, within=10)
        assert (done.attempts, done.expiries) == (1, 0)
        assert len(environment.marks(job)) == 1
