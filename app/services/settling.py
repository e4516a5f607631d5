"""Settles without results, many in one round trip: what ends while one batch is written goes with the next.

Nothing waits for a timer: a lone settle is written at once, and under load the batches grow by themselves.
"""

import asyncio
from collections.abc import Sequence

from app.domain.errors import Unavailable
from app.domain.leases import SettledAttempt, Settlement
from app.ports.leases import Leases

AT_ONCE = 500
"""Settlements in one call: beyond this a batch gains nothing, and holds its rows' locks for longer."""


class SettleBatcher:
    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._waiting: list[tuple[Settlement, asyncio.Future[SettledAttempt | None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def settle(self, settlement: Settlement) -> SettledAttempt | None:
        """None: the lease is lost. Raises what the store raises; what the others in its batch did is their own."""
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
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait, and the next batch must be written
            if isinstance(error, Unavailable) or len(batch) == 1:
                _each(batch, error)
            else:  # one that the store refuses must not keep the others from their end
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
