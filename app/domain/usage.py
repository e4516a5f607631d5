"""Usage: what a tenant has had done, by day."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

LONGEST = 366
"""Days that can be asked for at once."""

USUAL = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCounts:
    documents: int = 0
    """Uploaded; the same bytes again are none."""
    pages: int = 0
    """Read, by jobs that came to their end."""
    bytes: int = 0
    """Of those documents."""
    input_tokens: int = 0
    """Of a language model, also by jobs that failed."""
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
    """In UTC."""
    used: UsageCounts


def total(used: Iterable[UsageCounts]) -> UsageCounts:
    return sum(used, start=NOTHING)


def each_day(days: Iterable[DailyUsage], *, first: date, last: date) -> list[DailyUsage]:
    """All days from the first to the last, also those on which nothing was used."""
    known = {each.day: each.used for each in days}
    wanted = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    return [DailyUsage(day=day, used=known.get(day, NOTHING)) for day in wanted]
