"""Limits on a lane's slots for one endpoint and one tenant, so that a slow receiver does not delay others.

A delivery can't be put back halfway, so one share of the slots stays free for the tenant that comes next.
"""

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

LONGEST_WAIT = timedelta(minutes=15)
AT_FIRST = 0.5
"""The assumed seconds of a delivery until one has been measured."""


@dataclass(slots=True)
class _EndpointQueue:
    """The running deliveries of an endpoint or tenant, and the latest retry time given to a rejected one."""

    running: int = 0
    seconds: float = AT_FIRST
    """Seconds of one delivery, averaged with a preference for the latest."""
    until: float = 0.0


class EndpointBusy(Exception):
    def __init__(self, after: timedelta) -> None:
        super().__init__("other deliveries are being sent to it")
        self.after = after


class EndpointSlots:
    """Gives rejected deliveries staggered retry times based on the receiver's measured response time.

    If all returned at once, each of them would cost an attempt every time.
    """

    def __init__(self, *, slots: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._of_endpoint = max(1, slots // 4)
        self._slots = slots
        self._clock = clock
        self._lines: dict[tuple[Hashable, ...], _EndpointQueue] = {}

    @contextmanager
    def place(self, *, tenant: Hashable, endpoint: Hashable) -> Iterator[None]:
        """Take a slot of the tenant and of the endpoint. Raises EndpointBusy."""
        limits = {(tenant,): self._share(tenant), (tenant, endpoint): self._of_endpoint}
        for name, limit in limits.items():
            queue = self._lines.get(name)
            if queue is not None and queue.running >= limit:
                raise EndpointBusy(self._retry_after(queue, limit=limit))
        queues = {name: self._lines.setdefault(name, _EndpointQueue()) for name in limits}
        started = self._clock()
        for queue in queues.values():
            queue.running += 1
        try:
            yield
        finally:
            for name, queue in queues.items():
                queue.running -= 1
                queue.seconds = (queue.seconds + self._clock() - started) / 2
                if not queue.running:
                    self._lines.pop(name, None)

    def _share(self, tenant: Hashable) -> int:
        """Return the slots that the tenant may hold, with those that hold some and one more to come."""
        tenants = {name[0] for name in self._lines} | {tenant}
        return max(1, self._slots // (len(tenants) + 1))

    def _retry_after(self, queue: _EndpointQueue, *, limit: int) -> timedelta:
        now = self._clock()
        queue.until = max(queue.until, now) + queue.seconds / limit
        return min(timedelta(seconds=queue.until - now), LONGEST_WAIT)
