"""A look is shared: who scrapes more often, or in greater numbers, costs the database nothing more."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from app.domain.errors import Unavailable
from app.services import backlog_cache
from app.services.backlog_cache import AGAIN, BACKLOG_FRESH, OLDEST, SharedQuery


class Table:
    """It tells how often it was looked at, and when it is let."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.looks = 0
        self.lasts = 0.0
        self.away = False
        self.free = asyncio.Event()
        self.free.set()

    async def read(self) -> int:
        self.looks += 1
        await self.free.wait()
        self.now += self.lasts
        if self.away:
            raise Unavailable("away")
        return self.looks

    def look(self) -> SharedQuery[int]:
        return SharedQuery(self.read, clock=lambda: self.now)


@pytest.fixture
def table() -> Table:
    return Table()


async def test_who_asks_while_it_is_fresh_gets_the_same_answer(table: Table) -> None:
    look = table.look()
    assert [await look(), await look()] == [1, 1]
    table.now += BACKLOG_FRESH - 0.1
    assert await look() == 1
    table.now += 0.1
    assert await look() == 2


async def test_many_who_ask_at_once_put_one_question(table: Table) -> None:
    look = table.look()
    table.free.clear()
    asking = [asyncio.create_task(look()) for _ in range(50)]
    await _turns()
    table.free.set()
    assert await asyncio.gather(*asking) == [1] * 50


async def test_ten_processes_scraped_every_15_seconds_for_an_hour_ask_less_than_twice_a_second(table: Table) -> None:
    seen = [table.look() for _ in range(10)]
    for _ in range(3600 // 15):
        for look in seen:
            await look()
        table.now += 15
    assert table.looks == 10 * 3600 / 15
    assert table.looks / 3600 < 1


async def test_a_costly_look_is_kept_for_longer_so_that_a_scrape_costs_what_it_may(table: Table) -> None:
    table.lasts = 0.010
    look = table.look()
    for _ in range(100):
        await look()
        table.now += 15
    assert table.looks * table.lasts / 100 == pytest.approx(0.005, rel=0.1)


async def test_but_never_for_so_long_that_an_alarm_would_come_late(table: Table) -> None:
    table.lasts = 1
    look = table.look()
    await look()
    table.now += OLDEST
    assert await look() == 2


async def test_a_failure_is_told_to_all_and_soon_tried_again(table: Table) -> None:
    table.away = True
    look = table.look()
    for _ in range(3):
        with pytest.raises(Unavailable):
            await look()
    assert table.looks == 1
    table.away = False
    table.now += AGAIN
    assert await look() == 2


async def test_who_waited_long_enough_is_told_so_and_the_answer_is_there_for_the_next(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog_cache, "PATIENCE", 0.01)
    look = table.look()
    table.free.clear()
    with pytest.raises(Unavailable, match="in time"):
        await look()
    table.free.set()
    await _turns()
    assert await look() == 1


async def test_a_look_that_is_under_way_ends_with_the_process(table: Table) -> None:
    look = table.look()
    table.free.clear()
    asking = asyncio.create_task(look())
    await _turns()
    await look.close()
    assert await _cancelled(lambda: asking)


async def _turns() -> None:
    """Let everything go on that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def _cancelled(wait: Callable[[], Awaitable[object]]) -> bool:
    try:
        await wait()
    except asyncio.CancelledError:
        return True
    return False
