"""A tenant's usage by day."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

LONGEST = 366
"""The most days of one request."""

USUAL = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCounts:
    documents: int = 0
    """Documents uploaded; the same bytes uploaded again don't count."""
    pages: int = 0
    """Pages read by jobs that were done."""
    bytes: int = 0
    """The size of the uploaded documents."""
    input_tokens: int = 0
    """Tokens sent to a language model, including those of jobs that failed."""
    output_tokens: int = 0

    def __add__(self, other: "UsageCounts") -> "UsageCounts":
        return UsageCounts(
            documents=self.documents + other.documents,
            pages=self.pages + other.pages,
            bytes=self.bytes + other.bytes,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )

    def __bool__(self) -> bool:
        return self != NOTHING


NOTHING = UsageCounts()


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyUsage:
    day: date
    """The day in UTC."""
    used: UsageCounts


def total_usage(used: Iterable[UsageCounts]) -> UsageCounts:
    return sum(used, start=NOTHING)


def each_day(days: Iterable[DailyUsage], *, first: date, last: date) -> list[DailyUsage]:
    """Return all days from the first to the last, including those without usage."""
    known = {each.day: each.used for each in days}
    wanted = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    return [DailyUsage(day=day, used=known.get(day, NOTHING)) for day in wanted]
