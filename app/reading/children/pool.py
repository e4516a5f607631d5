"""Long-lived child processes, each taken for one file at a time and killed on its own.

Not a ProcessPoolExecutor: there one crash fails every job in flight, and a running job can't be stopped.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from app.reading.children.process import ChildDied, ChildFailed, ChildProcess

FILES_BEFORE_RETIREMENT = 200
"""C libraries leak; a fresh child costs 0.3 s."""
_CLEARED_WITHIN = timedelta(seconds=5)


class PoolSlot:
    """The right to one child, whichever one it is by now."""

    def __init__(self, pool: "ChildPool") -> None:
        self._pool = pool
        self.occupant: ChildProcess | None = None

    async def child(self) -> ChildProcess:
        """The child, a fresh one if the last died. Raises ConnectionResetError once the pool is closed."""
        if self.occupant is None or not self.occupant.is_alive:
            self.occupant = None
            self.occupant = await self._pool.hire()
        return self.occupant


class ChildPool:
    def __init__(self, *, size: int, setup: Mapping[str, Any]) -> None:
        self._size = size
        self._setup = setup
        self._seats = asyncio.Semaphore(size)
        self._idle: list[ChildProcess] = []
        self._living: set[ChildProcess] = set()
        self._endings: set[asyncio.Task[None]] = set()
        self._birth = asyncio.Lock()
        """Held from before a child exists until `close` could find it."""
        self._closed = False
        self._waiting = 0

    @property
    def is_wanted(self) -> bool:
        """Somebody waits for a seat."""
        return self._waiting > 0

    async def start(self) -> None:
        """Have every child ready: the first job is then no slower than the next."""
        missing = self._size - len(self._living)
        # All are waited for, also after a failure: none may be born once this has returned.
        children = await asyncio.gather(*(self._spawned() for _ in range(missing)), return_exceptions=True)
        self._idle += [child for child in children if isinstance(child, ChildProcess)]
        for child in children:
            if isinstance(child, BaseException):
                raise child

    async def close(self) -> None:
        """End every child, working or not; returns when none is left."""
        self._closed = True
        async with self._birth:
            self._idle.clear()
            for child in self._living:
                child.kill()
        while self._endings:
            await asyncio.wait(self._endings)

    def dismiss_idle(self) -> None:
        """End the children that nobody needs now."""
        while self._idle:
            self._idle.pop().kill()

    @asynccontextmanager
    async def seat(self) -> AsyncIterator[PoolSlot]:
        """Waits for a seat. A child still at work when it is left is killed, others clear their desk."""
        self._waiting += 1
        try:
            await self._seats.acquire()
        finally:
            self._waiting -= 1
        seat = PoolSlot(self)
        try:
            yield seat
        finally:
            await self.give_back(seat)

    async def spare(self) -> PoolSlot | None:
        """One more seat, to be given back as soon as the pool is wanted; None where all are taken."""
        if self._seats.locked():
            return None
        await self._seats.acquire()
        return PoolSlot(self)

    async def give_back(self, seat: PoolSlot) -> None:
        try:
            await self._vacate(seat)
        finally:
            self._seats.release()

    async def hire(self) -> ChildProcess:
        while self._idle:
            child = self._idle.pop()
            if child.is_alive:
                return child
        return await self._spawned()

    async def _spawned(self) -> ChildProcess:
        async with self._birth:
            self._check_open()
            child = await ChildProcess.spawn(self._setup)
            self._living.add(child)
            ending = asyncio.create_task(self._bury(child))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)
        try:
            await child.ready()
        except RuntimeError:
            # Killed by `close` before it was ready?
            self._check_open()
            raise
        return child

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionResetError("Recognition was closed")

    async def _bury(self, child: ChildProcess) -> None:
        await child.ended()
        self._living.discard(child)

    async def _vacate(self, seat: PoolSlot) -> None:
        child = seat.occupant
        if child is None or not child.is_alive:
            return
        if child.is_busy or child.files >= FILES_BEFORE_RETIREMENT:
            child.kill()
            return
        try:
            await child.ask({"do": "close"}, within=_CLEARED_WITHIN)
        except (ChildDied, ChildFailed, TimeoutError):
            child.kill()
        else:
            self._idle.append(child)
