"""Background loops: an error or a hang costs one turn, and who watches sees when they last succeeded."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from app.telemetry import Metrics
from app.worker.worker import run_periodically
from tests.unit.waiting import until

OFTEN = timedelta(milliseconds=1)
LONG = timedelta(hours=1)


@asynccontextmanager
async def going(
    turn: Callable[[], Awaitable[object]], metrics: Metrics, *, every: timedelta = OFTEN, deadline: timedelta = LONG
) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(run_periodically("sweep", turn, every=every, deadline=deadline, metrics=metrics))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Turns:
    """Counts its turns; the first ones do as they are told."""

    def __init__(self, *first: Callable[[], Awaitable[object]]) -> None:
        self._first = list(first)
        self.count = 0

    async def __call__(self) -> None:
        self.count += 1
        if self._first:
            await self._first.pop(0)()


def raising(error: Exception) -> Callable[[], Awaitable[object]]:
    async def fail() -> None:
        raise error

    return fail


def age(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value("daira_loop_last_success_seconds", {"loop": "sweep"})


async def test_a_turn_follows_another_until_the_loop_is_cancelled() -> None:
    turns = Turns()
    async with going(turns, Metrics()) as task:
        await until(lambda: turns.count >= 5)
    assert task.cancelled()


async def test_the_first_turn_comes_at_once() -> None:
    turns = Turns()
    async with going(turns, Metrics(), every=LONG):
        await until(lambda: turns.count == 1)


async def test_the_first_turn_may_come_later() -> None:
    turns, metrics = Turns(), Metrics()
    later = timedelta(milliseconds=100)
    loop = run_periodically("sweep", turns, every=LONG, deadline=LONG, metrics=metrics, after=later)
    task = asyncio.create_task(loop)
    began = time.monotonic()
    await until(lambda: turns.count == 1)
    assert time.monotonic() - began >= later.total_seconds()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_loop_that_is_not_vital_is_never_missed() -> None:
    for vital in (True, False):
        metrics = Metrics()
        loop = run_periodically("sweep", Turns(), every=OFTEN, deadline=OFTEN, metrics=metrics, after=LONG, vital=vital)
        task = asyncio.create_task(loop)
        await until(lambda metrics=metrics: (age(metrics) or 0) > 0.05)  # type: ignore[misc]
        assert ("sweep" in metrics.silent_loops()) == vital
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_loop_survives_any_error() -> None:
    turns = Turns(*map(raising, (RuntimeError("boom"), TimeoutError(), LookupError())))
    async with going(turns, Metrics()) as task:
        await until(lambda: turns.count >= 6)
        assert not task.done()


async def test_a_turn_that_hangs_is_ended_at_its_deadline() -> None:
    ended: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hung")

    turns = Turns(hang, hang)
    async with going(turns, Metrics(), deadline=timedelta(milliseconds=20)):
        await until(lambda: turns.count >= 4)
    assert ended == ["hung", "hung"]


async def test_the_time_since_the_last_success_is_told_from_the_start() -> None:
    metrics = Metrics()

    async def hang() -> None:
        await asyncio.Event().wait()

    async with going(hang, metrics):
        await until(lambda: (age(metrics) or 0) > 0.02)
        assert metrics.silent_loops() == {}


async def test_a_success_sets_the_age_back_and_a_failure_does_not() -> None:
    metrics = Metrics()
    turns = Turns(raising(RuntimeError("boom")))
    metrics.loop_started("sweep", silent_after=500)
    metrics._succeeded["sweep"] -= 1000
    async with going(turns, metrics, every=timedelta(milliseconds=200), deadline=timedelta(seconds=5)):
        await until(lambda: turns.count == 1)
        assert (age(metrics) or 0) >= 1000
        assert "sweep" in metrics.silent_loops()
        await until(lambda: (age(metrics) or 0) < 500)
        assert metrics.silent_loops() == {}
    assert turns.count >= 2
