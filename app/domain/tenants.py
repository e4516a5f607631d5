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
class Limits:
    """What a tenant may use at most; None: what the settings say for everybody."""

    max_running: int | None = None
    """Jobs that run at the same time, over all workers. No setting: without it there is no cap."""
    max_queued: int | None = None
    """Jobs that wait or run; beyond it an upload is refused, and nothing of it stored."""
    max_upload_bytes: int | None = None
    requests_per_minute: int | None = None
    """By each web process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    id: TenantId
    state: TenantState
    created_at: datetime
    limits: Limits = Limits()
