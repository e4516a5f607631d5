"""A lane's queue in memory: each bell goes to one caller, and no bell is lost by a cancelled wait."""

import asyncio
import heapq
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count

from app.domain.doorbells import Ring
from app.ports.doorbell import Delivery


class MemoryDoorbell:
    def __init__(self) -> None:
        self._bells: list[tuple[float, int, Ring]] = []
        """A heap: when each bell is due by the loop's clock, then in the order of ringing."""
        self._order = count()
        self._rung = asyncio.Event()
        self._stopped = False

    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        due = _now() + delay.total_seconds()
        for ring in rings:
            heapq.heappush(self._bells, (due, next(self._order), ring))
        self._wake()

    async def answer(self, *, limit: int, wait: timedelta) -> list[Delivery]:
        end = _now() + wait.total_seconds()
        # Nothing is awaited between taking and returning, so that cancelling can't come between the two.
        while not (taken := self._take(limit)) and _now() < end and not self._stopped:
            await self._wait_until(end)
        return taken

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """A bell is gone when it has been answered."""

    async def stop_answering(self) -> None:
        self._stopped = True
        self._wake()

    async def ping(self) -> None:
        """Always there."""

    def _take(self, limit: int) -> list[Delivery]:
        taken: list[Delivery] = []
        while not self._stopped and len(taken) < limit and self._is_due():
            taken.append(Delivery(ring=heapq.heappop(self._bells)[2]))
        return taken

    def _is_due(self) -> bool:
        return bool(self._bells) and self._bells[0][0] <= _now()

    def _wake(self) -> None:
        self._rung.set()
        self._rung = asyncio.Event()

    async def _wait_until(self, end: float) -> None:
        """Until the next ring, the end of a delay, or `end`."""
        rung, next_due = self._rung, min((bell[0] for bell in self._bells[:1]), default=end)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(end, next_due)):
                await rung.wait()


def _now() -> float:
    return asyncio.get_running_loop().time()
