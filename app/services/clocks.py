"""Compares the clocks that ages are counted by with this process's own: the database's and the blob store's.

Where they differ, one is wrong and nobody knows which; so nothing is deleted for its age.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app.ports.blobs import BlobInventory
from app.ports.leases import Sweeps

TOLERATED = timedelta(minutes=1)
"""The greatest difference with which anything is deleted for its age. Synchronised clocks differ by milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """Another clock's time, and this process's clock beside it."""

    at: datetime
    ahead: timedelta
    """The time by which this process's clock is ahead of the other, or more; negative if it is behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReadings:
    database: ClockReading
    blobs: ClockReading

    def faults(self, *, tolerated: timedelta = TOLERATED) -> list[str]:
        """Return a sentence for each clock that differs by more."""
        found = {"database": self.database.ahead, "blob store": self.blobs.ahead}
        return [
            f"this machine's clock is {abs(ahead)} {'ahead of' if ahead > timedelta() else 'behind'} the {name}'s:"
            " synchronise both (NTP); until then nothing is purged"
            for name, ahead in found.items()
            if abs(ahead) > tolerated
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockComparer:
    sweeps: Sweeps
    blobs: BlobInventory

    async def read(self) -> ClockReadings:
        """Read both clocks. Raises Unavailable."""
        return ClockReadings(database=await clock_reading(self.sweeps.now), blobs=await clock_reading(self.blobs.now))


async def clock_reading(ask: Callable[[], Awaitable[datetime]]) -> ClockReading:
    # The answer's time is between the two. A slow answer makes no difference of its own.
    before = datetime.now(UTC)
    at = await ask()
    after = datetime.now(UTC)
    nothing = timedelta()
    return ClockReading(at=at, ahead=max(nothing, before - at) + min(nothing, after - at))
