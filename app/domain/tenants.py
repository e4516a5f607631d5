"""A tenant: the wall around documents, jobs and keys."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from app.domain.ids import TenantId


class TenantState(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"
    """No key is accepted and no job is claimed; nothing is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    id: TenantId
    state: TenantState
    created_at: datetime
