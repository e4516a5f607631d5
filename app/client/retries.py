"""Trying again: only what can't do harm twice, only what may go well later, and not for ever.

| what went wrong | what is tried again |
|---|---|
| 429; no connection was made | everything: nothing has been done |
| 502, 503, 504; the connection broke | what may be done twice: reading, and what has an idempotency key |
| 409 `conflict` with `Retry-After` | the same: the request that was sent before is just being done |
| any other answer | nothing |
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import httpx

from app.client.faults import ApiFault

FIRST, LONGEST = 0.5, 15.0
"""Seconds between tries, where the server does not ask for more."""

TOO_MANY_REQUESTS = 429
UNCERTAIN_STATUSES = frozenset({502, 503, 504})
"""Also of a proxy that has lost sight of the service."""

AnswerT = TypeVar("AnswerT")

RetryCallback = Callable[[Exception, float], object]
"""Told why there is another try, and in how many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    seconds: float = 60.0
    """That one call may spend between its tries. 0: there is one try."""
    busy: float = 60.0
    """The same, while the server says that there is too much to do (429)."""
    pause: Callable[[float], object] = time.sleep
    told: RetryCallback = lambda _why, _seconds: None


NO_RETRIES = RetryPolicy(seconds=0, busy=0)
"""For somebody who looks at the screen and can try again himself."""


def with_retries(call: Callable[[], AnswerT], *, patience: RetryPolicy, twice: bool) -> AnswerT:
    """Return the call's answer. `twice`: it may be done twice. Raises the last fault when the time is over."""
    left = {True: patience.busy, False: patience.seconds}
    step = FIRST
    while True:
        try:
            return call()
        except (ApiFault, httpx.TransportError) as fault:
            wait, busy = _wait(fault, step), is_busy(fault)
            if not _is_worth(fault, twice=twice) or wait > left[busy]:
                raise
            patience.told(fault, wait)
        patience.pause(wait)
        left[busy] -= wait
        step = min(2 * step, LONGEST)


def is_busy(fault: Exception) -> bool:
    return isinstance(fault, ApiFault) and fault.status == TOO_MANY_REQUESTS


def _is_worth(fault: ApiFault | httpx.TransportError, *, twice: bool) -> bool:
    match fault:
        case ApiFault(status=status):
            return is_busy(fault) or (twice and (status in UNCERTAIN_STATUSES or _is_being_done(fault)))
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.PoolTimeout():
            return True
        case httpx.UnsupportedProtocol():
            return False
        case _:
            return twice


def _is_being_done(fault: ApiFault) -> bool:
    return fault.code == "conflict" and fault.retry_after is not None


def _wait(fault: ApiFault | httpx.TransportError, step: float) -> float:
    # Spread out, for those who were turned away together; longer each time, for a server may ask for no pause at all.
    ours = step * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
    asked = fault.retry_after if isinstance(fault, ApiFault) else None
    return max(asked or 0.0, ours)
