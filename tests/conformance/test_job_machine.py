"""Both stores play the machine of jobs: quick games that are the same each time, and long ones that never are."""

from contextlib import AbstractAsyncContextManager
from secrets import randbits

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from typing_extensions import override

from tests.conformance.job_encounters import JobEncounters
from tests.conformance.store_under_test import OpenStore, StoreUnderTest, memory_under_test
from tests.conformance.store_under_test_on_postgres import postgres_under_test
from tests.support.databases import Cloned

# Many short runs: after its first dozen a run makes most of its games out of the earlier ones, with little that is new.
GAMES = settings(
    max_examples=12,
    stateful_step_count=25,
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
LONG_RUNS = 200

# A game that was lost is played again, shorter and shorter, for up to five minutes.
pytestmark = pytest.mark.timeout(900)


def play(open_store: OpenStore, *, run: int) -> None:
    class Game(JobEncounters):
        @override
        def open_store(self) -> AbstractAsyncContextManager[StoreUnderTest]:
            return open_store()

    run_state_machine_as_test(seed(run)(Game), settings=GAMES)


@pytest.mark.parametrize("run", range(12))
def test_the_memory_store_plays_as_the_model_does(run: int) -> None:
    play(memory_under_test, run=run)


@pytest.mark.parametrize("run", range(5))
def test_postgres_plays_as_the_model_does(cloned: Cloned, run: int) -> None:
    play(postgres_under_test(cloned), run=run)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_memory_store_plays_as_the_model_does_for_long() -> None:
    for _ in range(LONG_RUNS):
        play(memory_under_test, run=randbits(32))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_postgres_plays_as_the_model_does_for_long(cloned: Cloned) -> None:
    for _ in range(LONG_RUNS):
        play(postgres_under_test(cloned), run=randbits(32))
