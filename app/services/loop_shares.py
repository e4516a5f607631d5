"""Shares of the event loop: a tenant whose requests have taken too much of its time waits while others come.

One process answers all tenants in one thread. Beyond its credit, a tenant goes on only as fast as its share allows; the
rest of the time is the others'. A tenant that is alone gets all of it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from app.domain.errors import TooMany
from app.domain.ids import TenantId

SHARE = 0.4
"""The part of the loop's time that tenants beyond their credit have together, as long as others come."""

CREDIT = 0.1
"""Seconds of waiting that a tenant has saved up at most: this times SHARE may be used at once."""

DEBT = 2.0
"""Seconds of waiting that a tenant owes at most."""

MOST_IN_ADVANCE = 0.05
"""Seconds of the loop's time that a request is charged before it has taken any."""

RECENT = 60.0
"""Seconds for which a tenant counts as coming, after its latest request."""

PATIENCE = 30.0
"""Seconds that a request waits in its tenant's line at most."""

SOON = timedelta(seconds=2)


class LoopShares:
    """Decides when a tenant may go on, by the time that its requests took."""

    def __init__(
        self, *, max_open: int, patience: float = PATIENCE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`max_open` is the number of requests that a tenant may have open."""
        self._patience = patience
        self._max_open = max_open
        self._clock = clock
        self._open: Counter[TenantId] = Counter()
        self._seen: dict[TenantId, float] = {}
        self._paid_until: dict[TenantId, float] = {}
        self._usual: dict[TenantId, float] = {}
        """Seconds that a request of the tenant took lately, which the next one is charged in advance."""
        self._lines: dict[TenantId, asyncio.Lock] = {}
        self._forget_at = clock() + RECENT
        self._debtors = 1
        self._count_at = clock()

    def enter(self, tenant_id: TenantId) -> None:
        """Count a request of the tenant until `leave`. Raises TooMany at its limit."""
        if self._open[tenant_id] >= self._max_open:
            raise TooMany(
                f"this tenant has {self._max_open} requests open here, the limit; wait for their answers",
                retry_after=SOON,
            )
        self._open[tenant_id] += 1
        now = self._clock()
        if now >= self._forget_at:
            self._forget_absent(now)
        self._seen[tenant_id] = now

    def leave(self, tenant_id: TenantId) -> None:
        self._open[tenant_id] -= 1
        if not self._open[tenant_id]:
            del self._open[tenant_id]

    def charge(self, tenant_id: TenantId, seconds: float) -> None:
        now = self._clock()
        paid = max(self._paid_until.get(tenant_id, 0.0), now - CREDIT) + seconds / self._share(now)
        self._paid_until[tenant_id] = min(paid, now + DEBT)

    def wait(self, tenant_id: TenantId) -> float:
        """Return the seconds until the tenant may go on."""
        now = self._clock()
        owed = self._paid_until.get(tenant_id, 0.0) - now
        if owed <= 0 or not any(seen > now - RECENT for each, seen in self._seen.items() if each != tenant_id):
            return 0.0
        return owed

    async def admit(self, tenant_id: TenantId) -> float:
        """Wait in the tenant's line, and charge what a request of it usually takes. Returns that.

        Raises TooMany after a long wait.
        """
        try:
            async with asyncio.timeout(self._patience), self._lines.setdefault(tenant_id, asyncio.Lock()):
                await self.pace(tenant_id)
                return self._charged_in_advance(tenant_id)
        except TimeoutError:
            raise TooMany(
                "this tenant's requests take more than its share of this server; send fewer at a time", retry_after=SOON
            ) from None

    async def pace(self, tenant_id: TenantId) -> None:
        """Wait until the tenant may go on."""
        # Its other requests may take time meanwhile, so the wait may grow.
        while (seconds := self.wait(tenant_id)) > 0:  # noqa: ASYNC110 - time is waited for, and no event
            await asyncio.sleep(seconds)

    def learn(self, tenant_id: TenantId, seconds: float) -> None:
        self._usual[tenant_id] = 0.8 * self._usual.get(tenant_id, seconds) + 0.2 * seconds

    def _charged_in_advance(self, tenant_id: TenantId) -> float:
        usual = min(MOST_IN_ADVANCE, self._usual.get(tenant_id, MOST_IN_ADVANCE))
        self.charge(tenant_id, usual)
        return usual

    def _share(self, now: float) -> float:
        """The part of the loop's time for each of those that have no credit; they are counted now and then."""
        if now >= self._count_at:
            self._debtors = max(1, sum(until > now for until in self._paid_until.values()))
            self._count_at = now + CREDIT
        return SHARE / self._debtors

    def _forget_absent(self, now: float) -> None:
        absent = [each for each, seen in self._seen.items() if seen <= now - RECENT and not self._open[each]]
        for tenant_id in absent:
            for known in (self._seen, self._paid_until, self._usual, self._lines):
                known.pop(tenant_id, None)
        self._forget_at = now + RECENT
