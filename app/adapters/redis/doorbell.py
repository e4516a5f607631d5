"""The queue in Redis or Valkey: a list of bells for each lane, and a sorted set of those whose time has not come."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

from app.adapters.redis.connection import connect, reachable
from app.domain.doorbells import Ring, parse_ring, ring_message
from app.domain.errors import Invalid, Unavailable
from app.ports.doorbell import Delivery

# A job that is rung for later twice has one bell, and the sooner one counts. Times are the server's.
RING = """
local delay, capacity = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local due = time[1] * 1000 + math.floor(time[2] / 1000) + delay
for i = 3, #ARGV do
    if delay > 0 then
        redis.call('ZADD', KEYS[2], 'LT', due, ARGV[i])
    else
        redis.call('RPUSH', KEYS[1], ARGV[i])
    end
end
redis.call('LTRIM', KEYS[1], 0, capacity - 1)
"""

# Taken is gone: each bell wakes one worker, and a worker that dies with it costs one sweep.
TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call('ZRANGE', KEYS[2], '-inf', now, 'BYSCORE', 'LIMIT', 0, 1000)
if #due > 0 then
    redis.call('RPUSH', KEYS[1], unpack(due))
    redis.call('ZREM', KEYS[2], unpack(due))
end
local taken = redis.call('LPOP', KEYS[1], ARGV[1])
local next = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
return {taken or {}, next[2] and next[2] - now or -1}
"""

CAPACITY = 100_000
"""Bells of a lane, 13 MB. Without a worker every sweep rings again; what is cut off here is rung by one later on."""

BLOCK = 1.0
"""Seconds between looks for delayed bells: one that is rung while all workers wait is late by so much at most."""

LEFT_BEHIND = 2.0
"""Seconds that closing waits for a look that was left behind, which blocks for one at most."""


class RedisDoorbell:
    """Raises Unavailable at once while the server is away: the caller decides how long to pause.

    `url` is that of one server or proxy: redis://, rediss:// or unix://. `dropped` is told how many messages were
    no doorbells. Made in a running event loop; closed after the last answer.
    """

    def __init__(self, url: str, *, lane: str, dropped: Callable[[int], object], prefix: str = "daira") -> None:
        # The braces keep both keys on one node of a cluster.
        self._bells = f"{prefix}:{{{lane}}}:bells"
        self._later = f"{prefix}:{{{lane}}}:later"
        self._dropped = dropped
        self._commands = connect(url, name=f"daira-{lane}", connections=10)
        # Blocked connections are no use to anybody else, so that waiting can't keep a ring out.
        self._waits = connect(url, name=f"daira-{lane}-waits", connections=100, may_block=BLOCK)
        self._ring = self._commands.register_script(RING)
        self._take = self._commands.register_script(TAKE)
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running: set[asyncio.Task[Any]] = set()

    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        if rings:
            messages = [ring_message(ring) for ring in rings]
            milliseconds = max(0, round(delay / timedelta(milliseconds=1)))
            with reachable():
                await self._ring(keys=[self._bells, self._later], args=[milliseconds, CAPACITY, *messages])

    async def answer(self, *, limit: int, wait: timedelta) -> list[Delivery]:
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

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Nothing to do: taking a bell removed it."""

    async def stop_answering(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def ping(self) -> None:
        with reachable():
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

        Cancelling a command would lose what the server has just popped for it. So it runs as a task, which is left
        behind, and its bells go back.
        """
        look = asyncio.create_task(self._pop(limit=limit, seconds=seconds))
        ends: set[asyncio.Future[Any]] = {look, self._stopped}
        # Until its result is in these hands, or somebody else's: closing waits for that.
        self._running.add(look)
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not self._stopped.done():
                return look.result()
            self._leave_behind(look)
            return []
        except asyncio.CancelledError:
            self._leave_behind(look)
            raise
        finally:
            self._running.discard(look)

    async def _pop(self, *, limit: int, seconds: float) -> list[bytes]:
        with reachable():
            messages, next_due = await self._take(keys=[self._bells, self._later], args=[limit])
            if messages or seconds <= 0:
                return cast("list[bytes]", messages)
            # 0 would block for ever.
            block = max(0.01, min(seconds, BLOCK, next_due / 1000 if next_due >= 0 else BLOCK))
            popped = await self._waits.blmpop(block, 1, self._bells, direction="LEFT", count=limit)
            return cast("list[bytes]", popped[1]) if popped else []

    def _leave_behind(self, look: asyncio.Task[list[bytes]]) -> None:
        back = asyncio.create_task(self._give_back(look))
        self._running.add(back)
        back.add_done_callback(self._running.discard)

    async def _give_back(self, look: asyncio.Task[list[bytes]]) -> None:
        """To the front, where they were. If the server is away they are lost, and rung again by the sweeper."""
        with suppress(Unavailable):
            if messages := await look:
                with reachable():
                    await self._commands.lpush(self._bells, *reversed(messages))

    def _read(self, messages: list[bytes]) -> list[Delivery]:
        deliveries: list[Delivery] = []
        for message in messages:
            with suppress(Invalid):
                deliveries.append(Delivery(ring=parse_ring(message)))
        if bad := len(messages) - len(deliveries):
            self._dropped(bad)
        return deliveries
