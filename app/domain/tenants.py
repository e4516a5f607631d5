"""Tenants, which own documents, jobs and keys; callers, who act for a tenant within their scopes; and request rates."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum

from app.domain.errors import Invalid
from app.domain.ids import TenantId
from app.domain.keys import Scope

GREATEST = {"max_upload_bytes": 2**63 - 1}
"""The greatest values that every store can hold as a limit. For limits not named here it is 2 ** 31 - 1."""


class TenantState(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"
    """No key is accepted and no job is claimed. Nothing is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A tenant's own limits. None means the value in the settings, which applies to every tenant."""

    max_running: int | None = None
    """Jobs that run at the same time, over all workers. There is no setting: None means no cap."""
    max_queued: int | None = None
    """Jobs that wait or run. Beyond it an upload is refused, and nothing of it is stored."""
    max_upload_bytes: int | None = None
    requests_per_minute: int | None = None
    """Counted by each web process separately."""

    def changed(self, changes: Mapping[str, int | None]) -> "Limits":
        """Return the limits with these changes. Raises Invalid for values that no store holds."""
        for name, value in changes.items():
            greatest = GREATEST.get(name, 2**31 - 1)
            if value is not None and not 0 < value <= greatest:
                raise Invalid(f"{name} is a number from 1 to {greatest:,}, or none")
        return replace(self, **changes)


LIMITS = tuple(each.name for each in fields(Limits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The limits in force for a tenant, from its own limits and the settings."""

    max_running: int | None
    max_queued: int
    max_upload_bytes: int
    requests_per_minute: int

    def with_own(self, limits: Limits) -> "Allowance":
        """Return these limits, replaced by a tenant's own where it has some. Its own may be higher."""
        own = {name: value for name in LIMITS if (value := getattr(limits, name)) is not None}
        return replace(self, **own) if own else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    id: TenantId
    state: TenantState
    created_at: datetime
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    tenant_id: TenantId
    name: str
    """The key's name, or a token's subject."""
    scopes: frozenset[Scope]
    allowance: Allowance
    admitted_at: datetime = field(compare=False)
    """The store's time at which the credential was accepted."""

    def may(self, scope: Scope) -> bool:
        return not self.scopes.isdisjoint({scope, Scope.ADMIN})


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


def decide_rate(used_until: float, *, now: float, limit: int) -> tuple[float, RateDecision]:
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
