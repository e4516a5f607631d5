"""A tenant's usage by day; the rows of each past day are folded into one."""

from dataclasses import dataclass
from datetime import UTC, date, timedelta

from app.domain.errors import Invalid
from app.domain.ids import TenantId
from app.domain.usage import LONGEST, USUAL, DailyUsage, each_day
from app.ports.database import Database, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageService:
    database: Database

    async def by_day(self, tenant_id: TenantId, *, first: date | None, last: date | None) -> list[DailyUsage]:
        """Return every day of the range, in UTC; by default the last 30 days. Raises Invalid for a bad range."""
        async with self.database.begin(tenant_id) as tx:
            first, last = _days(first, last, today=_today(tx))
            used = await tx.usage.by_day(first, last)
        return each_day(used, first=first, last=last)

    async def fold(self, tenant_id: TenantId) -> int:
        async with self.database.begin(tenant_id) as tx:
            return await tx.usage.fold(before=_today(tx))


def _today(tx: Tx) -> date:
    return tx.now.astimezone(UTC).date()


def _days(first: date | None, last: date | None, *, today: date) -> tuple[date, date]:
    last = last or max(today, first or today)
    first = first or _before(last, USUAL - 1)
    if first > last:
        raise Invalid("the first day is after the last one", pointer="/from")
    if (last - first).days >= LONGEST:
        raise Invalid(f"the range has more than {LONGEST} days; ask for a year at a time", pointer="/from")
    return first, last


def _before(day: date, days: int) -> date:
    """Return the day so many days before, or the calendar's first day."""
    return day - min(timedelta(days=days), day - date.min)
