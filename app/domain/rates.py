"""Requests a minute, by the generic cell rate algorithm: one number for each tenant, no timer and no counter.

The number is the moment up to which quota is used. Each request moves it on by one request's share of a minute, and
none may move it further than a minute ahead. After a pause the whole quota of a minute is available at once. Used quota
comes back evenly.
"""

from dataclasses import dataclass

WINDOW = 60.0
"""Seconds."""

ROUNDING = 1e-3
"""The tolerance for rounding errors in sums of fractions, as a share of one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDecision:
    admitted: bool
    limit: int
    remaining: int
    wait: float
    """Seconds within which no more than `remaining` can be used.
    After a refusal, the time until the next try can succeed."""


def decide(used_until: float, *, now: float, limit: int) -> tuple[float, RateDecision]:
    """Judge one request at `now` (monotonic seconds). Return the new number and the decision."""
    share = WINDOW / limit
    used = max(0.0, used_until - now)
    admitted = (WINDOW - used) / share >= 1 - ROUNDING
    if admitted:
        used += share
    free = max(0.0, (WINDOW - used) / share)
    remaining = int(free + ROUNDING)
    wait = (remaining + 1 - free) * share
    return now + used, RateDecision(admitted=admitted, limit=limit, remaining=remaining, wait=wait)
