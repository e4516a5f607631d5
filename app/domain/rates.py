"""Requests a minute, by the generic cell rate algorithm: one number for each tenant, no timer and no counter.

The number is the moment up to which quota is used: each request moves it on by a minute's share, and none may move it
further than a minute ahead. At rest a minute's whole quota is there at once; it comes back evenly.
"""

from dataclasses import dataclass

WINDOW = 60.0
"""Seconds."""

ROUNDING = 1e-3
"""Of one request: what sums of fractions may be off by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDecision:
    admitted: bool
    limit: int
    remaining: int
    wait: float
    """Seconds within which no more than `remaining` can be used: after a refusal, until the next try can succeed."""


def judge(used_until: float, *, now: float, limit: int) -> tuple[float, RateDecision]:
    """One request at `now` (monotonic seconds); the number as it is afterwards, and what to answer."""
    share = WINDOW / limit
    used = max(0.0, used_until - now)
    admitted = (WINDOW - used) / share >= 1 - ROUNDING
    if admitted:
        used += share
    free = max(0.0, (WINDOW - used) / share)
    remaining = int(free + ROUNDING)
    wait = (remaining + 1 - free) * share
    return now + used, RateDecision(admitted=admitted, limit=limit, remaining=remaining, wait=wait)
