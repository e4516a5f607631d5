"""The queue in Redis or Valkey. Tenants are served in turn, and a waiting caller holds no bell."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from redis.commands.core import AsyncScript

from app.adapters.redis.connection import connect, forget_idle, redis_errors, run_script
from app.adapters.redis.scripts import GIVE_BACK, PROBE, RING, TAKE, LaneKeys
from app.domain.doorbells import Ring, parse_ring, ring_message
from app.domain.errors import Invalid, Unavailable
from app.ports.doorbell import DoorbellDelivery

CAPACITY = 100_000
"""Bells of a lane, 14 MB, and as many delayed ones. Each tenant may add as many as there is room left, so that one
tenant fills half a lane at most and excludes nobody. A bell that finds no room is rung by a later sweep."""

BLOCK = 1.0
"""Seconds between looks at the queue. It is the longest delay of a bell that becomes due while all workers wait, or
that was announced to a worker which then died."""

LEFT_BEHIND = 2.0
"""Seconds that closing waits for abandoned looks. Each of them blocks for one second at most."""


class RedisDoorbell:
    """Queues doorbells in one lane of a Redis or Valkey server.

    Raises Unavailable at once while the server is away: the caller decides how long to pause. `url` is that of one
    server or proxy: redis://, rediss:// or unix://. `dropped` is called with the number of messages that were no
    doorbells. Made in a running event loop; closed after the last answer.
    """

    def __init__(self, url: str, *, lane: str, dropped: Callable[[int], object], prefix: str = "daira") -> None:
        self._keys = LaneKeys(prefix, lane)
        self._dropped = dropped
        self._commands = connect(url, name=f"daira-{lane}", connections=10)
        # Blocked connections can't be used for anything else, so a pool of their own keeps waiting from delaying a
        # ring.
        self._waits = connect(url, name=f"daira-{lane}-waits", connections=100, may_block=BLOCK)
        self._ring = self._commands.register_script(RING)
        self._take = self._commands.register_script(TAKE)
        self._return = self._commands.register_script(GIVE_BACK)
        self._probe = self._commands.register_script(PROBE)
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running: set[asyncio.Task[Any]] = set()

    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        if rings:
            messages = [ring_message(ring) for ring in rings]
            milliseconds = max(0, round(delay / timedelta(milliseconds=1)))
            await self._run(self._ring, CAPACITY, milliseconds, *messages)

    async def answer(self, *, limit: int, wait: timedelta) -> list[DoorbellDelivery]:
        """Return bells, waiting for up to `wait`.

        If the caller is cancelled or stopped, its bells go returning to the queue, unless the process ends first.
        """
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
        """Do nothing: taking a bell removed it."""

    async def stop_answering(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def ping(self) -> None:
        """Ask whether a ring would be taken: a replica or a full server answers every PING."""
        await self._run(self._probe)

    async def reconnect(self) -> None:
        for client in (self._commands, self._waits):
            await forget_idle(client)

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
        """Return messages as soon as there are any within `seconds`, or none.

        Cancelling a command would lose the messages that the server has just taken for it. So the command runs as a
        task, which is abandoned instead, and its bells go returning.
        """
        abandoned = asyncio.Event()
        look = asyncio.create_task(self._find(limit=limit, seconds=seconds, abandoned=abandoned))
        ends: set[asyncio.Future[Any]] = {look, self._stopped}
        # Registered until the result is handed over or given returning: closing waits for that.
        self._running.add(look)
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not self._stopped.done():
                return look.result()
            self._abandon(look, abandoned)
            return []
        except asyncio.CancelledError:
            self._abandon(look, abandoned)
            raise
        finally:
            self._running.discard(look)

    async def _find(self, *, limit: int, seconds: float, abandoned: asyncio.Event) -> list[bytes]:
        """Take messages now, or wait for the entry of `wake` and take them then.

        Waiting takes only that entry and no bell. A caller that ends between the two delays the others by a second.
        """
        messages, next_due = await self._take_up_to(limit)
        if messages or seconds <= 0:
            return messages
        # 0 would block forever.
        block = max(0.01, min(seconds, BLOCK, next_due / 1000 if next_due >= 0 else BLOCK))
        async with redis_errors(self._waits):
            woken = await self._waits.blpop([self._keys.wake], block)
        if woken and not abandoned.is_set():
            messages, _ = await self._take_up_to(limit)
        return messages

    async def _take_up_to(self, limit: int) -> tuple[list[bytes], int]:
        """Return messages, and the milliseconds until the next delayed bell is due: -1 without one."""
        messages, next_due = await self._run(self._take, CAPACITY, limit)
        return messages, next_due

    async def _run(self, script: AsyncScript, *arguments: str | bytes | int) -> Any:
        async with redis_errors(self._commands):
            return await run_script(script, self._commands, keys=self._keys.all(), args=arguments)

    def _abandon(self, look: asyncio.Task[list[bytes]], abandoned: asyncio.Event) -> None:
        abandoned.set()
        returning = asyncio.create_task(self._give_back(look))
        self._running.add(returning)
        returning.add_done_callback(self._running.discard)

    async def _give_back(self, look: asyncio.Task[list[bytes]]) -> None:
        """Put the bells back at the front. While the server is away they are lost, and the sweeper rings them again."""
        with suppress(Unavailable):
            messages = await look
            await self._run(self._return, *messages)

    def _read(self, messages: list[bytes]) -> list[DoorbellDelivery]:
        deliveries: list[DoorbellDelivery] = []
        for message in messages:
            with suppress(Invalid):
                deliveries.append(DoorbellDelivery(ring=parse_ring(message)))
        if bad := len(messages) - len(deliveries):
            self._dropped(bad)
        return deliveries
