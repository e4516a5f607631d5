"""Usage, in rows that are only added. Rows of a past day are folded into one."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date

from sqlalchemy import func, insert, select

from app.adapters.postgres.clamped import ClampedConnection, known_faults
from app.adapters.postgres.tables import usage
from app.domain.ids import uuid7
from app.domain.usage import NOTHING, DailyUsage, UsageCounts

COUNTED = tuple(asdict(NOTHING))

ADD = insert(usage)

# Of two concurrent folds, one deletes each row and counts it: the sums are those of the deleted rows.
FOLD = f"""
with many as (
    select day from daira.usage where tenant_id = $1 and day < $2 group by day having count(*) > 1
), gone as (
    delete from daira.usage where tenant_id = $1 and day in (select day from many) returning *
), kept as (
    insert into daira.usage (tenant_id, id, day, {", ".join(COUNTED)})
    select $1, (array_agg(id))[1], day, {", ".join(f"sum({name})" for name in COUNTED)} from gone group by day
    returning 1
)
select (select count(*) from gone) - (select count(*) from kept) as folded
"""  # noqa: S608 - put together from our own names


class PostgresUsage:
    def __init__(self, clamped: ClampedConnection) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def add(self, used: UsageCounts) -> None:
        if used:
            with known_faults():
                row = {"tenant_id": self._tenant_id, "id": uuid7(), **asdict(used)}
                await self._clamped.execute(ADD, row)

    async def by_day(self, first: date, last: date) -> Sequence[DailyUsage]:
        c = usage.c
        sums = [func.sum(c[name]).label(name) for name in COUNTED]
        wanted = select(c.day, *sums).where(c.tenant_id == self._tenant_id, c.day.between(first, last))
        rows = await self._clamped.execute(wanted.group_by(c.day).order_by(c.day))
        return [
            DailyUsage(day=row.day, used=UsageCounts(**{name: int(row[name]) for name in COUNTED}))
            for row in rows.mappings()
        ]

    async def fold(self, *, before: date) -> int:
        (row,) = await self._clamped.call(FOLD, self._tenant_id, before)
        return int(row["folded"])
