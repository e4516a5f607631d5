"""Usage in the memory store."""

from collections.abc import Sequence
from datetime import date

from app.adapters.memory.store import Session
from app.domain.usage import DayUsed, Used, total


class MemoryUsage:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, used: Used) -> None:
        if used:
            tables = await self._session.writing()
            tables.require_tenant()
            tables.usage = (*tables.usage, DayUsed(day=self._session.now().date(), used=used))

    async def by_day(self, first: date, last: date) -> Sequence[DayUsed]:
        return [each for each in _folded(self._session.reading().usage) if first <= each.day <= last]

    async def fold(self, *, before: date) -> int:
        tables = await self._session.writing()
        over = [each for each in tables.usage if each.day < before]
        folded = _folded(over)
        tables.usage = (*folded, *(each for each in tables.usage if each.day >= before))
        return len(over) - len(folded)


def _folded(rows: Sequence[DayUsed]) -> list[DayUsed]:
    days = sorted({each.day for each in rows})
    return [DayUsed(day=day, used=total(each.used for each in rows if each.day == day)) for day in days]
