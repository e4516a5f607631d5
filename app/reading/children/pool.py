"""A pool of long-lived child processes, each of which serves one file at a time and can be killed on its own.

A ProcessPoolExecutor would not do: one crash fails every job in flight, and a running job can't be stopped.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from app.reading.children.process import READER, ChildDied, ChildFailed, ChildProcess

FILES_BEFORE_RETIREMENT = 200
"""A child is replaced after so many files, because C libraries leak. A fresh child costs 0.3 s."""
_CLEARED_WITHIN = timedelta(seconds=5)


class PoolSlot:
    """The right to use one child. The child may be replaced in between."""

    def __init__(self, pool: "ChildPool") -> None:
        self._pool = pool
        self.process: ChildProcess | None = None

    async def child(self) -> ChildProcess:
        """The slot's child; a fresh one if the last died. Raises ConnectionResetError once the pool is closed."""
        if self.process is None or not self.process.is_alive:
            self.process = None
            self.process = await self._pool.take_child()
        return self.process


class ChildPool:
    """Starts up to `size` children and lends each to one slot at a time."""

    def __init__(self, *, size: int, setup: Mapping[str, Any], program: str = READER) -> None:
        self._size = size
        self._setup = setup
        self._program = program
        self._free_slots = asyncio.Semaphore(size)
        self._idle: list[ChildProcess] = []
        self._living: set[ChildProcess] = set()
        self._endings: set[asyncio.Task[None]] = set()
        self._spawn_lock = asyncio.Lock()
        """Held from before a child exists until `close` can find it."""
        self._closed = False
        self._waiting = 0

    @property
    def has_waiters(self) -> bool:
        """True while a file waits for a slot."""
        return self._waiting > 0

    async def start(self) -> None:
        """Start every child, so that the first job is no slower than the next."""
        missing = self._size - len(self._living)
        # Wait for all, also after a failure: no child may start once this has returned.
        children = await asyncio.gather(*(self._spawned() for _ in range(missing)), return_exceptions=True)
        self._idle += [child for child in children if isinstance(child, ChildProcess)]
        for child in children:
            if isinstance(child, BaseException):
                raise child

    async def close(self) -> None:
        """Kill every child, even if it is working, and wait until none is left."""
        self._closed = True
        async with self._spawn_lock:
            self._idle.clear()
            for child in self._living:
                child.kill()
        while self._endings:
            await asyncio.wait(self._endings)

    def dismiss_idle(self) -> None:
        """Kill the children that are idle."""
        while self._idle:
            self._idle.pop().kill()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[PoolSlot]:
        """Wait for a slot. On leaving, a child that is still working is killed; any other closes its file."""
        self._waiting += 1
        try:
            await self._free_slots.acquire()
        finally:
            self._waiting -= 1
        slot = PoolSlot(self)
        try:
            yield slot
        finally:
            await self.release(slot)

    async def spare(self) -> PoolSlot | None:
        """A free slot, to be released as soon as the pool has waiters; None if all are taken."""
        if self._free_slots.locked():
            return None
        await self._free_slots.acquire()
        return PoolSlot(self)

    async def release(self, slot: PoolSlot) -> None:
        try:
            await self._clear(slot)
        finally:
            self._free_slots.release()

    async def take_child(self) -> ChildProcess:
        while self._idle:
            child = self._idle.pop()
            if child.is_alive:
                return child
        return await self._spawned()

    async def _spawned(self) -> ChildProcess:
        async with self._spawn_lock:
            self._check_open()
            child = await ChildProcess.spawn(self._setup, program=self._program)
            self._living.add(child)
            ending = asyncio.create_task(self._forget_when_ended(child))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)
        try:
            await child.ready()
        except RuntimeError:
            # `close` may have killed it before it was ready.
            self._check_open()
            raise
        return child

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionResetError("Recognition was closed")

    async def _forget_when_ended(self, child: ChildProcess) -> None:
        await child.ended()
        self._living.discard(child)

    async def _clear(self, slot: PoolSlot) -> None:
        child = slot.process
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
