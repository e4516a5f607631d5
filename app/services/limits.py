"""Limits of a tenant: the rate of its requests, and the number of its live jobs.

The rate is counted in this process only, so a request needs no round trip and no shared counter. The limit of live
jobs is exact: they are counted in the transaction that adds some, under the tenant's lock.
"""

import time
from collections.abc import Callable
from datetime import timedelta

from app.domain.errors import TooMany
from app.domain.ids import TenantId
from app.domain.tenants import WINDOW, RateDecision, decide_rate
from app.ports.database import Tx


class RateLimiter:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used_until: dict[TenantId, float] = {}
        self._forget_at = clock() + WINDOW

    def judge(self, tenant_id: TenantId, *, limit: int) -> RateDecision:
        """Decide on one request, and count it unless it is refused. `limit` is in requests a minute."""
        now = self._clock()
        if now >= self._forget_at:
            self._forget_idle(now)
        self._used_until[tenant_id], verdict = decide_rate(self._used_until.get(tenant_id, now), now=now, limit=limit)
        return verdict

    def _forget_idle(self, now: float) -> None:
        """Drop tenants whose quota is full again: they are like tenants never seen."""
        self._used_until = {tenant: until for tenant, until in self._used_until.items() if until > now}
        self._forget_at = now + WINDOW


LOCK_WITHIN = 1_000
"""Jobs that concurrent transactions may add: 50 of them with 20 each. A tenant further from its limit needs no lock."""

QUEUE_RETRY_AFTER = timedelta(seconds=30)


async def refuse_beyond_queue_limit(limit: int, tx: Tx) -> None:
    """Raise TooMany if the tenant has more than `limit` live jobs; that rolls back what the transaction has added.

    Call it last, with the new jobs added: nothing but the commit may follow while the lock is held.
    """
    far = limit - LOCK_WITHIN
    if far > 0 and await tx.jobs.live(at_most=far) < far:
        return
    await tx.tenant.lock()
    if await tx.jobs.live(at_most=limit + 1) > limit:
        raise TooMany(
            f"this tenant has {limit:,} jobs queued or running, its limit; wait for some to end",
            retry_after=QUEUE_RETRY_AFTER,
        )
