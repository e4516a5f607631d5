"""A semaphore that serves tenants in turn, however much each of them asks for."""

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

    Of one tenant, `share` work at a time; it may have `of_one` under way, counted until their results are taken.
    `what` names the work in errors.
    """

    def __init__(
        self,
        *,
        at_once: int,
        share: int | None = None,
        waiting: int = 64,
        of_one: int = 16,
        patience: timedelta = timedelta(seconds=30),
        what: str = "rendering",
    ) -> None:
        self._at_once = at_once
        self._free = at_once
        self._share = share or at_once
        self._most_waiting = waiting
        self._most_of_one = of_one
        self._patience = patience
        self._what = what
        self._held: Counter[TenantId] = Counter()
        self._working: Counter[TenantId] = Counter()
        self._lines: dict[TenantId, deque[asyncio.Future[None]]] = {}
        """The waiting requests by tenant. The tenant whose turn is next comes first."""

    @property
    def idle(self) -> bool:
        """True if no request works, waits or has a result that was not taken yet."""
        return self._free == self._at_once and not self._lines and not self._held

    def working(self, tenant_id: TenantId) -> int:
        return self._working[tenant_id]

    def waiting(self, tenant_id: TenantId) -> int:
        return len(self._lines.get(tenant_id, ()))

    def enter(self, tenant_id: TenantId) -> None:
        """Count a request of the tenant until `leave`. Raises TooMany at its limit."""
        if self._held[tenant_id] >= self._most_of_one:
            raise TooMany(
                f"this tenant has {self._most_of_one} {self._what} requests under way, the limit;"
                " wait for their answers",
                retry_after=SOON,
            )
        self._held[tenant_id] += 1

    def leave(self, tenant_id: TenantId) -> None:
        _less(self._held, tenant_id)

    @asynccontextmanager
    async def turn(self, tenant_id: TenantId) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises Unavailable if too many wait, or after `patience`."""
        await self._wait(tenant_id)
        try:
            yield
        finally:
            self._pass_on(tenant_id)

    @asynccontextmanager
    async def counted_turn(self, tenant_id: TenantId) -> AsyncIterator[None]:
        """Count a request and hold a turn for it. Raises what `enter` and `turn` raise."""
        self.enter(tenant_id)
        try:
            async with self.turn(tenant_id):
                yield
        finally:
            self.leave(tenant_id)

    async def _wait(self, tenant_id: TenantId) -> None:
        if self._may_work(tenant_id):
            self._begin(tenant_id)
            return
        if sum(map(len, self._lines.values())) >= self._most_waiting:
            raise Unavailable(f"the {self._what} queue is full; retry in a few seconds", public=True)
        called = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant_id, deque()).append(called)
        try:
            async with asyncio.timeout(self._patience.total_seconds()):
                await called
        except BaseException as error:
            self._give_up(tenant_id, called)
            if isinstance(error, TimeoutError):
                raise Unavailable(
                    f"timed out waiting for a turn ({self._what}); retry in a few seconds", public=True
                ) from None
            raise

    def _may_work(self, tenant_id: TenantId) -> bool:
        return self._free > 0 and self._working[tenant_id] < self._share

    def _begin(self, tenant_id: TenantId) -> None:
        self._free -= 1
        self._working[tenant_id] += 1

    def _give_up(self, tenant_id: TenantId, called: "asyncio.Future[None]") -> None:
        if called.done() and not called.cancelled():
            # The turn came in the same moment: pass it on.
            self._pass_on(tenant_id)
        elif called in (line := self._lines.get(tenant_id, deque())):
            line.remove(called)
            if not line:
                del self._lines[tenant_id]

    def _pass_on(self, tenant_id: TenantId) -> None:
        _less(self._working, tenant_id)
        self._free += 1
        while (following := next(filter(self._may_work, self._lines), None)) is not None:
            line = self._lines.pop(following)
            called = line.popleft()
            if line:
                # Behind all other tenants.
                self._lines[following] = line
            # A request that has just given up is passed over.
            if not called.done():
                self._begin(following)
                called.set_result(None)


def _less(counts: "Counter[TenantId]", tenant_id: TenantId) -> None:
    counts[tenant_id] -= 1
    if not counts[tenant_id]:
        del counts[tenant_id]
