"""A lane's queue in memory.

Tenants are served in turn, each bell goes to one caller, and a cancelled wait loses none.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count

from app.domain.doorbells import Ring
from app.domain.ids import TenantId
from app.ports.doorbell import DoorbellDelivery


class MemoryDoorbell:
    def __init__(self) -> None:
        self._bells: dict[TenantId, deque[Ring]] = {}
        """Bells that are due. The dict's order is the order of service: a tenant that was served goes to the end."""
        self._later: list[tuple[float, int, Ring]] = []
        """A heap of delayed bells: the time when each is due, by the loop's clock, then the order of ringing."""
        self._order = count()
        self._rung = asyncio.Event()
        self._stopped = False

    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        due = _now() + delay.total_seconds()
        for ring in rings:
            heapq.heappush(self._later, (due, next(self._order), ring))
        self._wake()

    async def answer(self, *, limit: int, wait: timedelta) -> list[DoorbellDelivery]:
        end = _now() + wait.total_seconds()
        # Nothing is awaited between taking and returning, so that a cancel can't come between the two.
        while not (taken := self._take(limit)) and _now() < end and not self._stopped:
            await self._wait_until(end)
        return taken

    async def acknowledge(self, deliveries: Sequence[DoorbellDelivery]) -> None:
        """Do nothing: a bell is removed when it is answered."""

    async def stop_answering(self) -> None:
        self._stopped = True
        self._wake()

    async def ping(self) -> None:
        """Do nothing: the queue is always there."""

    async def reconnect(self) -> None:
        """Do nothing: there is no connection."""

    def _take(self, limit: int) -> list[DoorbellDelivery]:
        while self._later and self._later[0][0] <= _now():
            ring = heapq.heappop(self._later)[2]
            self._bells.setdefault(ring.tenant_id, deque()).append(ring)
        taken: list[DoorbellDelivery] = []
        while not self._stopped and self._bells and len(taken) < limit:
            tenant = next(iter(self._bells))
            bells = self._bells.pop(tenant)
            taken.append(DoorbellDelivery(ring=bells.popleft()))
            if bells:
                self._bells[tenant] = bells
        return taken

    def _wake(self) -> None:
        self._rung.set()
        self._rung = asyncio.Event()

    async def _wait_until(self, end: float) -> None:
        """Wait until the next ring, the end of a delay, or `end`."""
        rung, next_due = self._rung, min((bell[0] for bell in self._later[:1]), default=end)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(end, next_due)):
                await rung.wait()


def _now() -> float:
    return asyncio.get_running_loop().time()
