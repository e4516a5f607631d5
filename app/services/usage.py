"""What a tenant has used, by day; and the rows of days that are over made one."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from app.domain.errors import Invalid
from app.domain.ids import TenantId
from app.domain.usage import LONGEST, USUAL, DailyUsage, each_day
from app.ports.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageService:
    database: Database

    async def by_day(self, tenant_id: TenantId, *, first: date | None, last: date | None) -> list[DailyUsage]:
        """Every day from the first to the last, in UTC; the last 30 where nothing is said."""
        first, last = _days(first, last, today=datetime.now(UTC).date())
        async with self.database.begin(tenant_id) as tx:
            used = await tx.usage.by_day(first, last)
        return each_day(used, first=first, last=last)

    async def fold(self, tenant_id: TenantId) -> int:
        async with self.database.begin(tenant_id) as tx:
            return await tx.usage.fold(before=datetime.now(UTC).date())


def _days(first: date | None, last: date | None, *, today: date) -> tuple[date, date]:
    last = last or max(today, first or today)
    first = first or _before(last, USUAL - 1)
    if first > last:
        raise Invalid("the first day comes after the last one", pointer="/from")
    if (last - first).days >= LONGEST:
        raise Invalid(f"more than {LONGEST} days: ask for a year at a time", pointer="/from")
    return first, last


def _before(day: date, days: int) -> date:
    """The calendar has a first day."""
    return day - min(timedelta(days=days), day - date.min)
