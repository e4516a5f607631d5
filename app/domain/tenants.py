"""A tenant: the wall around documents, jobs and keys."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum

from app.domain.errors import Invalid
from app.domain.ids import TenantId
from app.domain.keys import Scope

GREATEST = {"max_upload_bytes": 2**63 - 1}
"""What every store holds as a limit; the others' is 2 ** 31 - 1."""


class TenantState(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"
    """No key is accepted and no job is claimed; nothing is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a tenant may use at most; None: what the settings say for everybody."""

    max_running: int | None = None
    """Jobs that run at the same time, over all workers. No setting: without it there is no cap."""
    max_queued: int | None = None
    """Jobs that wait or run; beyond it an upload is refused, and nothing of it stored."""
    max_upload_bytes: int | None = None
    requests_per_minute: int | None = None
    """By each web process."""

    def changed(self, changes: Mapping[str, int | None]) -> "Limits":
        """With these, and the others as they are. Raises Invalid for what no store holds."""
        for name, value in changes.items():
            greatest = GREATEST.get(name, 2**31 - 1)
            if value is not None and not 0 < value <= greatest:
                raise Invalid(f"{name} is a number from 1 to {greatest:,}, or none")
        return replace(self, **changes)


LIMITS = tuple(field.name for field in fields(Limits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What holds for a tenant once its own limits and those of the settings are put together."""

    max_running: int | None
    max_queued: int
    max_upload_bytes: int
    requests_per_minute: int

    def with_own(self, limits: Limits) -> "Allowance":
        """These, but where a tenant has its own: its own may be more, too."""
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
    """The key's, or a token's subject."""
    scopes: frozenset[Scope]
    allowance: Allowance

    def may(self, scope: Scope) -> bool:
        return not self.scopes.isdisjoint({scope, Scope.ADMIN})
