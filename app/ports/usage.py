"""What a tenant has used, as part of the transaction that makes it true."""

from collections.abc import Sequence
from datetime import date
from typing import Protocol

from app.domain.usage import DayUsed, Used


class Usage(Protocol):
    async def add(self, used: Used) -> None:
        """Today. Nobody waits for anybody: a row is added, none is changed. Nothing used adds none."""
        ...

    async def by_day(self, first: date, last: date) -> Sequence[DayUsed]:
        """Of these days those on which something was used, in order; both days are within."""
        ...

    async def fold(self, *, before: date) -> int:
        """Make one row of all that a day has, for days that are over. Returns how many rows went into others."""
        ...
