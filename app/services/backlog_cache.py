"""Looks across all tenants, shared by all who ask: however many scrape a process, the database is asked at times."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Generic, Self, TypeVar

from app.domain.errors import Unavailable
from app.ports.leases import Backlog, CleanupBlockers, Sweeps

T = TypeVar("T")

FRESH = 12.0
"""Seconds. Who scrapes every 15 has a new look each time."""

WORN = 60.0
"""Seconds: what only grows slowly."""

AGAIN = 5.0
"""Seconds until the next try, after a look that has failed."""

PATIENCE = 2.0
"""Seconds that one who asks waits. Prometheus gives up after 10, and would have nothing of the process then."""

SHARE = 3_000
"""A look is kept for so many times as long as it took: for one who scrapes every 15 s it costs 5 ms each time."""

OLDEST = 60.0
"""Seconds. The price of a look may grow further, its age may not: alarms hang on it."""


class SharedQuery(Generic[T]):
    """One answer for all who ask while it is fresh, and one question for all who ask meanwhile."""

    def __init__(
        self, read: Callable[[], Awaitable[T]], *, fresh: float = FRESH, clock: Callable[[], float] = monotonic
    ) -> None:
        self._read = read
        self._fresh = fresh
        self._clock = clock
        self._until = 0.0
        self._reading: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """Raises Unavailable, also where the answer is not there in time: it will be for those who ask later."""
        if self._reading is None or (self._reading.done() and self._clock() >= self._until):
            self._reading = asyncio.create_task(self._once())
        try:
            async with asyncio.timeout(PATIENCE):
                # Shared: who gives up takes it from nobody else.
                return await asyncio.shield(self._reading)
        except TimeoutError:
            raise Unavailable("the database did not answer in time") from None

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError, Unavailable):
                await self._reading

    async def _once(self) -> T:
        started = self._clock()
        kept = AGAIN
        try:
            seen = await self._read()
            kept = max(self._fresh, min((self._clock() - started) * SHARE, OLDEST))
        finally:
            self._until = self._clock() + kept
        return seen


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogCache:
    backlog: SharedQuery[list[Backlog]]
    wear: SharedQuery[CleanupBlockers]

    @classmethod
    def at(cls, sweeps: Sweeps) -> Self:
        return cls(backlog=SharedQuery(sweeps.backlog), wear=SharedQuery(sweeps.wear, fresh=WORN))

    async def close(self) -> None:
        await self.backlog.close()
        await self.wear.close()
