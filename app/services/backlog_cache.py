"""Caches of the metrics queries across all tenants, and of the comparison with the database's clock.

Any number of Prometheus scrapes cost the database at most one run of each query every 12 s.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Generic, Self, TypeVar

from app.domain.errors import Unavailable
from app.ports.leases import Backlog, CleanupBlockers, Sweeps
from app.services.clocks import ClockReading, clock_reading

T = TypeVar("T")

BACKLOG_FRESH = 12.0
"""Seconds that an answer is served. A scraper that comes every 15 s gets a new answer each time."""

VACUUM_FRESH = 60.0
"""Seconds that an answer is served whose figures grow slowly."""

AGAIN = 5.0
"""Seconds until the next try after a query has failed."""

PATIENCE = 2.0
"""Seconds that a caller waits. Prometheus gives up after 10 and would then have no metrics of the process at all."""

SHARE = 3_000
"""An answer is served this many times as long as its query took. Scraped every 15 s, that costs 5 ms a scrape."""

OLDEST = 60.0
"""Seconds. A slow query never makes an answer older than this, because alerts depend on it."""


class SharedQuery(Generic[T]):
    """Caches a query's answer while it is fresh; callers that come while the query runs share that one run."""

    def __init__(
        self, read: Callable[[], Awaitable[T]], *, fresh: float = BACKLOG_FRESH, clock: Callable[[], float] = monotonic
    ) -> None:
        self._read = read
        self._fresh = fresh
        self._clock = clock
        self._until = 0.0
        self._reading: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """Return the answer. Raises Unavailable, also after `PATIENCE`; the query goes on for later callers."""
        if self._reading is None or (self._reading.done() and self._clock() >= self._until):
            self._reading = asyncio.create_task(self._once())
        try:
            async with asyncio.timeout(PATIENCE):
                # Shielded: a caller that gives up does not cancel the query for the others.
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
        lifetime = AGAIN
        try:
            answer = await self._read()
            lifetime = max(self._fresh, min((self._clock() - started) * SHARE, OLDEST))
        finally:
            self._until = self._clock() + lifetime
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogCache:
    backlog: SharedQuery[list[Backlog]]
    wear: SharedQuery[CleanupBlockers]
    clock: SharedQuery[ClockReading]

    @classmethod
    def at(cls, sweeps: Sweeps) -> Self:
        return cls(
            backlog=SharedQuery(sweeps.backlog),
            wear=SharedQuery(sweeps.wear, fresh=VACUUM_FRESH),
            clock=SharedQuery(lambda: clock_reading(sweeps.now)),
        )

    async def close(self) -> None:
        await self.backlog.close()
        await self.wear.close()
        await self.clock.close()
