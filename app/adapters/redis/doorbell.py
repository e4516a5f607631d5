"""The queue in Redis or Valkey: tenants are served in turn, and who waits for a bell holds none."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from app.adapters.redis.connection import connect, redis_errors
from app.adapters.redis.scripts import GIVE_BACK, RING, TAKE, LaneKeys
from app.domain.doorbells import Ring, parse_ring, ring_message
from app.domain.errors import Invalid, Unavailable
from app.ports.doorbell import DoorbellDelivery

CAPACITY = 100_000
"""Bells of a lane, 14 MB, and as many delayed ones. A tenant gets as many as there is room left, so that one can fill
half a lane and keeps nobody out. What finds no room is rung by a sweep later on."""

BLOCK = 1.0
"""Seconds between looks. Late by so much at most is a bell that is delayed while all workers wait, or that was
announced to a worker which then died."""

LEFT_BEHIND = 2.0
"""Seconds that closing waits for a look that was left behind, which blocks for one at most."""


class RedisDoorbell:
    """Raises Unavailable at once while the server is away: the caller decides how long to pause.

    `url` is that of one server or proxy: redis://, rediss:// or unix://. `dropped` is told how many messages were
    no doorbells. Made in a running event loop; closed after the last answer.
    """

    def __init__(self, url: str, *, lane: str, dropped: Callable[[int], object], prefix: str = "daira") -> None:
        self._keys = LaneKeys(prefix, lane)
        self._dropped = dropped
        self._commands = connect(url, name=f"daira-{lane}", connections=10)
        # Blocked connections are no use to anybody else, so that waiting can't keep a ring out.
        self._waits = connect(url, name=f"daira-{lane}-waits", connections=100, may_block=BLOCK)
        self._ring = self._commands.register_script(RING)
        self._take = self._commands.register_script(TAKE)
        self._return = self._commands.register_script(GIVE_BACK)
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running: set[asyncio.Task[Any]] = set()

    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        if rings:
            messages = [ring_message(ring) for ring in rings]
            milliseconds = max(0, round(delay / timedelta(milliseconds=1)))
            with redis_errors():
                await self._ring(keys=self._keys.all(), args=[CAPACITY, milliseconds, *messages])

    async def answer(self, *, limit: int, wait: timedelta) -> list[DoorbellDelivery]:
        """A bell whose caller was cancelled or stopped goes back to the queue, unless the process ends first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait.total_seconds()
        while not self._stopped.done():
            messages = await self._look(limit=limit, seconds=deadline - loop.time())
            if deliveries := self._read(messages):
                return deliveries
            if loop.time() >= deadline:
                break
        return []

    async def acknowledge(self, deliveries: Sequence[DoorbellDelivery]) -> None:
        """Nothing to do: taking a bell removed it."""

    async def stop_answering(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def ping(self) -> None:
        with redis_errors():
            await self._commands.ping()

    async def close(self) -> None:
        await self.stop_answering()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEFT_BEHIND):
                while self._running:
                    await asyncio.wait(self._running)
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._waits.aclose()
        await self._commands.aclose()

    async def _look(self, *, limit: int, seconds: float) -> list[bytes]:
        """Messages, soon or within `seconds`, or none.

        Cancelling a command would lose what the server has just taken for it. So it runs as a task, which is left
        behind, and its bells go back.
        """
        gone = asyncio.Event()
        look = asyncio.create_task(self._find(limit=limit, seconds=seconds, gone=gone))
        ends: set[asyncio.Future[Any]] = {look, self._stopped}
        # Until its result is in these hands, or somebody else's: closing waits for that.
        self._running.add(look)
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not self._stopped.done():
                return look.result()
            self._leave_behind(look, gone)
            return []
        except asyncio.CancelledError:
            self._leave_behind(look, gone)
            raise
        finally:
            self._running.discard(look)

    async def _find(self, *, limit: int, seconds: float, gone: asyncio.Event) -> list[bytes]:
        """Waiting takes the one entry that says there are bells, and no bell: who ends there costs others a second."""
        with redis_errors():
            messages, next_due = await self._take_up_to(limit)
            if messages or seconds <= 0:
                return messages
            # 0 would block for ever.
            block = max(0.01, min(seconds, BLOCK, next_due / 1000 if next_due >= 0 else BLOCK))
            if await self._waits.blpop([self._keys.wake], block) and not gone.is_set():
                messages, _ = await self._take_up_to(limit)
            return messages

    async def _take_up_to(self, limit: int) -> tuple[list[bytes], int]:
        """And in how many milliseconds the next delayed bell is due; -1 without one."""
        messages, next_due = await self._take(keys=self._keys.all(), args=[CAPACITY, limit])
        return messages, next_due

    def _leave_behind(self, look: asyncio.Task[list[bytes]], gone: asyncio.Event) -> None:
        gone.set()
        back = asyncio.create_task(self._give_back(look))
        self._running.add(back)
        back.add_done_callback(self._running.discard)

    async def _give_back(self, look: asyncio.Task[list[bytes]]) -> None:
        """To the front, where they were. If the server is away they are lost, and rung again by the sweeper."""
        with suppress(Unavailable):
            messages = await look
            with redis_errors():
                await self._return(keys=self._keys.all(), args=messages)

    def _read(self, messages: list[bytes]) -> list[DoorbellDelivery]:
        deliveries: list[DoorbellDelivery] = []
        for message in messages:
            with suppress(Invalid):
                deliveries.append(DoorbellDelivery(ring=parse_ring(message)))
        if bad := len(messages) - len(deliveries):
            self._dropped(bad)
        return deliveries
