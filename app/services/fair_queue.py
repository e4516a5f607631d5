"""Turns at what few can do at a time: tenants one after the other, however much each of them asks for."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from app.domain.errors import TooMany, Unavailable
from app.domain.ids import TenantId

SOON = timedelta(seconds=2)


class FairSemaphore:
    """`at_once` work, `waiting` wait, for `patience` at most. A tenant may have `of_one` that it has not taken yet."""

    def __init__(
        self,
        *,
        at_once: int,
        waiting: int = 64,
        of_one: int = 16,
        patience: timedelta = timedelta(seconds=30),
    ) -> None:
        self._at_once = at_once
        self._free = at_once
        self._most_waiting = waiting
        self._most_of_one = of_one
        self._patience = patience
        self._held: Counter[TenantId] = Counter()
        self._lines: dict[TenantId, deque[asyncio.Future[None]]] = {}
        """Of those who wait, by tenant; the tenant whose turn is next stands first."""

    @property
    def idle(self) -> bool:
        """Nobody works, waits or has anything to take."""
        return self._free == self._at_once and not self._lines and not self._held

    def enter(self, tenant_id: TenantId) -> None:
        """Count one in, until `leave`. Raises TooMany."""
        if self._held[tenant_id] >= self._most_of_one:
            raise TooMany(
                f"{self._most_of_one} such requests are under way, the limit for one tenant: wait for their answers",
                retry_after=SOON,
            )
        self._held[tenant_id] += 1

    def leave(self, tenant_id: TenantId) -> None:
        self._held[tenant_id] -= 1
        if not self._held[tenant_id]:
            del self._held[tenant_id]

    @asynccontextmanager
    async def turn(self, tenant_id: TenantId) -> AsyncIterator[None]:
        """Raises Unavailable where too many wait, or where the wait grows too long."""
        await self._wait(tenant_id)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, tenant_id: TenantId) -> None:
        if self._free:
            self._free -= 1
            return
        if sum(map(len, self._lines.values())) >= self._most_waiting:
            raise Unavailable("too many wait for this already: try again soon")
        called = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant_id, deque()).append(called)
        try:
            async with asyncio.timeout(self._patience.total_seconds()):
                await called
        except BaseException as error:
            self._give_up(tenant_id, called)
            if isinstance(error, TimeoutError):
                raise Unavailable("it was not this request's turn in time: try again soon") from None
            raise

    def _give_up(self, tenant_id: TenantId, called: "asyncio.Future[None]") -> None:
        if called.done() and not called.cancelled():
            # Called in the same moment: the turn is another's.
            self._pass_on()
        elif called in (line := self._lines.get(tenant_id, deque())):
            line.remove(called)
            if not line:
                del self._lines[tenant_id]

    def _pass_on(self) -> None:
        while self._lines:
            tenant_id = next(iter(self._lines))
            line = self._lines.pop(tenant_id)
            called = line.popleft()
            if line:
                # Behind all other tenants.
                self._lines[tenant_id] = line
            # Who has just given up is called no more.
            if not called.done():
                called.set_result(None)
                return
        self._free += 1
