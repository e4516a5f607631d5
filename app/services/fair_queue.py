"""A semaphore that serves tenants in turn, however much each of them asks for; at present for renderings."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from app.domain.errors import TooMany, Unavailable
from app.domain.ids import TenantId

SOON = timedelta(seconds=2)


class FairSemaphore:
    """Lets `at_once` requests work while up to `waiting` others wait, each for `patience` at most.

    A tenant may have `of_one` requests under way, counted until their results are taken.
    """

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
        """The waiting requests by tenant. The tenant whose turn is next comes first."""

    @property
    def idle(self) -> bool:
        """True if no request works, waits or has a result that was not taken yet."""
        return self._free == self._at_once and not self._lines and not self._held

    def enter(self, tenant_id: TenantId) -> None:
        """Count a request of the tenant until `leave`. Raises TooMany at its limit."""
        if self._held[tenant_id] >= self._most_of_one:
            raise TooMany(
                f"this tenant has {self._most_of_one} rendering requests under way, the limit; wait for their answers",
                retry_after=SOON,
            )
        self._held[tenant_id] += 1

    def leave(self, tenant_id: TenantId) -> None:
        self._held[tenant_id] -= 1
        if not self._held[tenant_id]:
            del self._held[tenant_id]

    @asynccontextmanager
    async def turn(self, tenant_id: TenantId) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises Unavailable if too many wait, or after `patience`."""
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
            raise Unavailable("the rendering queue is full; retry in a few seconds", public=True)
        called = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant_id, deque()).append(called)
        try:
            async with asyncio.timeout(self._patience.total_seconds()):
                await called
        except BaseException as error:
            self._give_up(tenant_id, called)
            if isinstance(error, TimeoutError):
                raise Unavailable("timed out waiting for a renderer; retry in a few seconds", public=True) from None
            raise

    def _give_up(self, tenant_id: TenantId, called: "asyncio.Future[None]") -> None:
        if called.done() and not called.cancelled():
            # The turn came in the same moment: pass it on.
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
            # A request that has just given up is passed over.
            if not called.done():
                called.set_result(None)
                return
        self._free += 1
