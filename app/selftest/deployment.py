"""The deployment under test: the parts that the settings name, and two that only the test has."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from app.domain.doorbells import Ring
from app.domain.ids import TenantId
from app.ports.blobs import Blobs
from app.ports.database import Database
from app.ports.doorbell import Doorbell
from app.ports.leases import Leases, Sweeps


class IsolationProbe(Protocol):
    """Tries the isolation of tenants with statements that the program itself never makes."""

    async def furnish(self, tenant: TenantId) -> None:
        """Add a row of this tenant, which is registered, to every tenant table."""
        ...

    async def tables(self) -> list[str]:
        """Return every readable table that holds tenants' rows."""
        ...

    async def faults(self, mine: TenantId, theirs: TenantId) -> list[str]:
        """Return the faults found between two furnished tenants; empty if they are isolated."""
        ...


class VictimWorker(Protocol):
    """A worker in a process of its own, which can only claim."""

    async def claim(self, ring: Ring, *, lease: timedelta) -> bool:
        """Claim the job. Returns False if another worker was faster."""
        ...

    async def kill(self) -> None:
        """Kill the process at once, as the kernel's out-of-memory killer does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    database: Database
    leases: Leases
    sweeps: Sweeps
    doorbell: Doorbell
    """The doorbell of the lane that selftest jobs belong to."""
    blobs: Blobs
    wall: IsolationProbe
    doomed: Callable[[], AbstractAsyncContextManager[VictimWorker]]
    """Starts a worker that can be killed: it can claim when the context is entered, and is dead when it is left."""
    sweep_every: timedelta
