"""Who has asked how much of late, in this process alone: no round trip and no shared counter for a request."""

import time
from collections.abc import Callable
from datetime import timedelta

from app.domain.errors import TooMany
from app.domain.ids import TenantId
from app.domain.rates import WINDOW, RateDecision, judge
from app.ports.database import Tx


class RateLimiter:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used_until: dict[TenantId, float] = {}
        self._forget_at = clock() + WINDOW

    def judge(self, tenant_id: TenantId, *, limit: int) -> RateDecision:
        """Count one request, unless it is refused."""
        now = self._clock()
        if now >= self._forget_at:
            self._forget_idle(now)
        self._used_until[tenant_id], verdict = judge(self._used_until.get(tenant_id, now), now=now, limit=limit)
        return verdict

    def _forget_idle(self, now: float) -> None:
        """A tenant whose quota is whole again is like one that was never seen."""
        self._used_until = {tenant: until for tenant, until in self._used_until.items() if until > now}
        self._forget_at = now + WINDOW


NEAR = 1_000
"""Jobs that transactions which commit at the same moment may add: 50 of them with 20 each. Who is further from the
limit than that needs no lock."""

COME_BACK = timedelta(seconds=30)


async def refuse_beyond(limit: int, tx: Tx) -> None:
    """To be asked last, with the new jobs added: the lock may be held while waiting for nothing but the commit.

    Raises TooMany, and so takes back what the transaction has added.
    """
    far = limit - NEAR
    if far > 0 and await tx.jobs.live(at_most=far) < far:
        return
    await tx.tenant.lock()
    if await tx.jobs.live(at_most=limit + 1) > limit:
        raise TooMany(
            f"{limit:,} jobs of this tenant are queued or running, the limit here: wait for some to end",
            retry_after=COME_BACK,
        )
