"""How many slots of a lane one endpoint, and one tenant, may have: a slow receiver must not keep the others waiting."""

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

LONGEST_WAIT = timedelta(minutes=15)
AT_FIRST = 0.5
"""Seconds that a delivery is taken to need until one has been seen."""


@dataclass(slots=True)
class _EndpointQueue:
    """Who runs, and until when those who were sent away have been given their time."""

    running: int = 0
    seconds: float = AT_FIRST
    """Of one delivery, as the latest ones went."""
    until: float = 0.0


class EndpointBusy(Exception):
    def __init__(self, after: timedelta) -> None:
        super().__init__("others are just being sent there")
        self.after = after


class EndpointSlots:
    """Who is sent away is told when to come again: one after another, at the pace at which the receiver answers.

    If all came again at once, each of them would cost an attempt every time.
    """

    def __init__(self, *, slots: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._of_endpoint = max(1, slots // 4)
        self._of_tenant = max(1, slots // 2)
        self._clock = clock
        self._lines: dict[Hashable, _EndpointQueue] = {}

    @contextmanager
    def place(self, *, tenant: Hashable, endpoint: Hashable) -> Iterator[None]:
        """Raises Busy."""
        shares = {(tenant,): self._of_tenant, (tenant, endpoint): self._of_endpoint}
        for name, share in shares.items():
            line = self._lines.get(name)
            if line is not None and line.running >= share:
                raise EndpointBusy(self._turn(line, share=share))
        lines = {name: self._lines.setdefault(name, _EndpointQueue()) for name in shares}
        started = self._clock()
        for line in lines.values():
            line.running += 1
        try:
            yield
        finally:
            for name, line in lines.items():
                line.running -= 1
                line.seconds = (line.seconds + self._clock() - started) / 2
                if not line.running:
                    self._lines.pop(name, None)

    def _turn(self, line: _EndpointQueue, *, share: int) -> timedelta:
        now = self._clock()
        line.until = max(line.until, now) + line.seconds / share
        return min(timedelta(seconds=line.until - now), LONGEST_WAIT)
