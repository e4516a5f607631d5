"""Claim, beat, settle: the worker's hot path, each for many jobs of many tenants in one round trip.

Each sets the clamp for every tenant in turn, so a job named under a wrong tenant is missing, not claimed.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from app.domain.doorbells import Ring
from app.domain.leases import Beat, Claim, Pulse, Settled, Settlement


class Leases(Protocol):
    async def claim(
        self, rings: Sequence[Ring], *, worker: str, lease: timedelta, kinds: frozenset[str]
    ) -> list[Claim]:
        """Answer each distinct doorbell, in any order: at most one caller is told CLAIMED for an attempt.

        A claimed job of a kind not in `kinds` is put off by a minute, uncounted (UNKNOWN_KIND).
        """
        ...

    async def beat(self, pulses: Sequence[Pulse], *, lease: timedelta) -> list[Beat]:
        """Extend those leases that still hold, from the database's now.

        A job that is being written to just now may be left out of the answer: neither renewed nor lost.
        """
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled | None]:
        """End attempts, in the given order; None where the lease is lost and nothing was written."""
        ...
