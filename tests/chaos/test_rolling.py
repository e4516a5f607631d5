"""Rolling restarts of all workers under load: no job fails, none loses its worker, and nothing is completed twice.

Ten of them: ./daira test -m slow tests/chaos/test_rolling.py -n0 -s
"""

import asyncio
from collections import Counter

import pytest

from tests.chaos.checker import violations
from tests.chaos.environment import SoakEnvironment, soak_environment
from tests.chaos.forms import ROLLING
from tests.chaos.progress import say, table
from tests.chaos.records import Records
from tests.chaos.soak import evidence_of, until_calm

SEED = 20261129


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)], ids=["once", "ten times"])
async def test_a_rolling_restart_fails_no_job_and_runs_none_twice(times: int) -> None:
    async with soak_environment(ROLLING, seed=SEED, adapter="postgres") as where:
        arriving = asyncio.create_task(where.arrivals.run())
        for number in range(times):
            statuses = await _restart_all(where)
            assert statuses == [0] * ROLLING.workers
            say(f"\nrestart {number + 1} of all, {len(where.arrivals.committed):,} jobs so far")
        where.arrivals.enough.set()
        await arriving
        await until_calm(where, ROLLING)
        records = await evidence_of(where, ROLLING)
    _prove(records)


async def _restart_all(where: SoakEnvironment) -> list[int]:
    """Each is told to stop, and its successor is at work before the next one is."""
    statuses = []
    for process in where.supervisor.processes:
        statuses.append(await where.supervisor.drain(process))
        await where.supervisor.until_up()
    return statuses


def _prove(records: Records) -> None:
    rows = [case.row for case in records.cases.values() if case.row]
    completed = Counter(run.job_id for case in records.cases.values() for run in case.executions if run.event == "end")
    released = sum(row.releases for row in rows)
    table({"jobs": len(rows), "given back by workers that stopped": released})
    assert violations(records) == []
    assert Counter(row.state for row in rows) == {"done": len(records.cases)}
    assert {(row.failures, row.expiries) for row in rows} == {(0, 0)}
    assert set(completed.values()) == {1}
    assert len(completed) == len(records.cases)
    # Otherwise nothing was at stake.
    assert released
