"""The wait before a retry grows to its cap and never beyond, and an outage's retries don't come back as one wave (T23).

Run: ./daira test -m slow tests/chaos/behaviours/test_backoff.py -n0 -s
"""

import random
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

import pytest

from app.domain.outcomes import BACKOFF_CAP, BACKOFF_FLOOR, backoff
from tests.chaos.behaviours.environment import ACME, open_environment
from tests.chaos.behaviours.processes import eventually
from tests.support.databases import Databases

JOBS = 5_000
MOST = 0.05
"""Share of all retries that may fall into one second."""


@pytest.mark.parametrize("jitter", [0, 0.25, 0.5, 1])
def test_t23_the_wait_grows_to_its_cap_and_stays_there_for_400_failures(jitter: float) -> None:
    waits = [backoff(failures, jitter=jitter) for failures in range(1, 401)]
    assert waits == sorted(waits)
    assert min(waits) >= BACKOFF_FLOOR > timedelta()
    assert max(waits) <= BACKOFF_CAP
    assert waits[-1] == backoff(10**9, jitter=jitter)
    assert max(waits) == BACKOFF_CAP or jitter < 1


def busiest(seconds: Iterable[float]) -> float:
    """Share of the second with the most."""
    counts = Counter(int(second) for second in seconds)
    return max(counts.values()) / counts.total()


def _retries(failures: int) -> list[float]:
    dice = random.Random(failures)  # noqa: S311 - the same in every run
    return [backoff(failures, jitter=dice.random()).total_seconds() for _ in range(JOBS)]


def test_t23_of_5000_jobs_that_fail_at_once_no_second_gets_more_than_a_twentieth_back() -> None:
    assert busiest(_retries(0)) <= MOST


def test_t23_of_5000_jobs_that_fail_at_once_for_the_sixth_time_no_second_gets_more_than_a_twentieth_back() -> None:
    assert busiest(_retries(5)) <= MOST


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_t23_5000_jobs_that_fail_on_one_outage_come_back_spread(databases: Databases) -> None:
    async with open_environment(databases, {"DAIRA_LANES": "ocr=32"}) as environment:
        await environment.fetch(
            """
            insert into daira.jobs (tenant_id, id, kind, payload, run_after, ring_after)
            select $1, gen_random_uuid(), 'ocr', '{"do": "raise"}', now(), now() from generate_series(1, $2)
            """,
            ACME,
            JOBS,
        )
        await environment.work(2)
        again = "select count(*) = $1 from daira.job_attempts where attempt = 2"
        await eventually(lambda: environment.fetch(again, JOBS), within=240, every=0.5)
        waits = await environment.fetch(
            """
            select array_agg(extract(epoch from b.started_at - a.finished_at)::float8)
            from daira.job_attempts a join daira.job_attempts b on (b.job_id, b.attempt) = (a.job_id, 2)
            where a.attempt = 1
            """
        )
        at = await environment.fetch(
            "select array_agg(extract(epoch from started_at)::float8) from daira.job_attempts where attempt = 2"
        )
        print(f"\nbusiest second after the failure {busiest(waits):.0%}, by the clock {busiest(at):.0%}")  # noqa: T201
        assert max(busiest(waits), busiest(at)) <= MOST
