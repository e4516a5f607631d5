"""Settles jobs that write no results, many in one round trip.

A settle that comes while a batch is written goes into the next one. There is no timer: a single settle is written at
once, and batches grow with the load.
"""

import asyncio
from collections.abc import Sequence

from app.domain.errors import Unavailable
from app.domain.leases import SettledAttempt, Settlement
from app.ports.leases import Leases

AT_ONCE = 500
"""Settlements in one call. A larger batch gains nothing and holds its row locks longer."""


class SettleBatcher:
    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._waiting: list[tuple[Settlement, asyncio.Future[SettledAttempt | None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def settle(self, settlement: Settlement) -> SettledAttempt | None:
        """Settle the attempt; None if its lease is lost. Raises the store's error for this settlement."""
        held: asyncio.Future[SettledAttempt | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((settlement, held))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all(), name="settling")
        return await held

    async def _write_all(self) -> None:
        while batch := self._waiting[:AT_ONCE]:
            del self._waiting[:AT_ONCE]
            await self._write(batch)

    async def _write(self, batch: Sequence[tuple[Settlement, asyncio.Future[SettledAttempt | None]]]) -> None:
        try:
            answers = await self._leases.settle([settlement for settlement, _ in batch])
        except Exception as error:  # noqa: BLE001 - it is passed to the callers, and the next batch must be written
            if isinstance(error, Unavailable) or len(batch) == 1:
                _each(batch, error)
            else:  # one settlement that the store refuses must not stop the others
                for one in batch:
                    await self._write([one])
        else:
            for (_, held), answer in zip(batch, answers, strict=True):
                if not held.done():
                    held.set_result(answer)


def _each(batch: Sequence[tuple[Settlement, asyncio.Future[SettledAttempt | None]]], error: Exception) -> None:
    for _, held in batch:
        if not held.done():
            held.set_exception(error)
