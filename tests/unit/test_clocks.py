"""Clocks are compared by the time of an answer, however long it takes."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from app.services.clocks import TOLERATED, ClockReading, ClockReadings, clock_reading

NOTHING = timedelta()
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def off(by: timedelta, *, seconds: float = 0) -> Callable[[], Awaitable[datetime]]:
    """A clock that is off, and takes a while before and after it is read."""

    async def ask() -> datetime:
        await asyncio.sleep(seconds)
        at = datetime.now(UTC) + by
        await asyncio.sleep(seconds)
        return at

    return ask


async def test_an_equal_clock_that_answers_slowly_is_no_different_one() -> None:
    assert (await clock_reading(off(NOTHING, seconds=0.05))).ahead == NOTHING


@pytest.mark.parametrize("days", [40, -40])
async def test_the_difference_is_positive_where_this_process_is_ahead(days: int) -> None:
    reading = await clock_reading(off(timedelta(days=-days)))
    assert abs(reading.ahead - timedelta(days=days)) < timedelta(seconds=5)
    assert abs(reading.at - (datetime.now(UTC) - timedelta(days=days))) < timedelta(seconds=5)


@pytest.mark.parametrize(
    ("database", "blobs", "named"),
    [
        (NOTHING, NOTHING, []),
        (TOLERATED, -TOLERATED, []),
        (2 * TOLERATED, NOTHING, ["ahead of the database's"]),
        (NOTHING, -2 * TOLERATED, ["behind the blob store's"]),
        (-2 * TOLERATED, 2 * TOLERATED, ["behind the database's", "ahead of the blob store's"]),
    ],
)
def test_a_clock_that_differs_by_more_than_a_minute_is_named(
    database: timedelta, blobs: timedelta, named: list[str]
) -> None:
    readings = ClockReadings(database=ClockReading(at=NOON, ahead=database), blobs=ClockReading(at=NOON, ahead=blobs))
    faults = readings.faults()
    assert len(faults) == len(named)
    for fault, part in zip(faults, named, strict=True):
        assert f"this machine's clock is 0:02:00 {part}" in fault
