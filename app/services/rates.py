"""Who has asked how much of late, in this process alone: no round trip and no shared counter for a request."""

import time
from collections.abc import Callable

from app.domain.ids import TenantId
from app.domain.rates import WINDOW, Verdict, judge


class Rates:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used_until: dict[TenantId, float] = {}
        self._forget_at = clock() + WINDOW

    def judge(self, tenant_id: TenantId, *, limit: int) -> Verdict:
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
