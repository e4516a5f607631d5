"""T1, T5 and T9 with PgBouncer in transaction mode between the workers and the database; LISTEN alone is direct (T17).

Run: ./daira test -m pgbouncer tests/chaos/behaviours/test_pooled.py
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tests.chaos.behaviours import steps
from tests.chaos.behaviours.environment import Environment, open_environment
from tests.chaos.behaviours.processes import eventually
from tests.chaos.behaviours.scenarios import side_by_side
from tests.support.databases import Databases
from tests.support.pgbouncer import in_front_of

pytestmark = pytest.mark.pgbouncer


@asynccontextmanager
async def pooled(databases: Databases) -> AsyncIterator[Environment]:
    async with databases.clone() as cloned:
        with in_front_of(cloned.app_url) as url:
            settings = {"DAIRA_DATABASE_URL": url, "DAIRA_LISTEN_URL": cloned.app_url}
            async with open_environment(cloned, settings) as environment:
                yield environment
                direct = """
                    select count(*) from pg_stat_activity where datname = current_database() and usename = 'daira_app'
                    and application_name <> all ('{daira-listen,daira-behaviours}')
                """
                assert await environment.fetch(direct) <= 3, "all but the listeners share the pooler's connections"
                for worker in environment.workers:
                    assert "prepared statement" not in worker.file.read_text()


@side_by_side
async def test_t17_a_killed_workers_job_is_run_again_by_another_through_the_pooler(databases: Databases) -> None:
    async with pooled(databases) as environment:
        await steps.killed(environment, again=30)


@side_by_side
async def test_t17_a_handler_that_blocks_for_three_leases_keeps_its_job_through_the_pooler(
    databases: Databases,
) -> None:
    async with pooled(databases) as environment:
        await steps.blocked(environment)


@side_by_side
async def test_t17_fifty_bells_of_one_job_start_it_once_through_the_pooler(databases: Databases) -> None:
    async with pooled(databases) as environment:
        await steps.rung_again_and_again(environment)
        await eventually(partial(environment.fetch, "select not exists (select from daira.doorbells)"), within=10)
