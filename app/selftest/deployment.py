"""What is tested: the parts that the settings lead to, and two that are there for the test alone."""

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
    """The tenant wall, tried with statements that the program itself never makes."""

    async def furnish(self, tenant: TenantId) -> None:
        """A row in every tenant table; the tenant is registered already."""
        ...

    async def tables(self) -> list[str]:
        """Every table that holds tenants' rows and can be read."""
        ...

    async def faults(self, mine: TenantId, theirs: TenantId) -> list[str]:
        """What is wrong, of two furnished tenants; nothing when the wall stands."""
        ...


class VictimWorker(Protocol):
    """A worker in a process of its own, which can do no more than to claim."""

    async def claim(self, ring: Ring, *, lease: timedelta) -> bool:
        """False: somebody else was faster."""
        ...

    async def kill(self) -> None:
        """At once, as a kernel does that is out of memory."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    database: Database
    leases: Leases
    sweeps: Sweeps
    doorbell: Doorbell
    """Of the lane that selftest jobs belong to."""
    blobs: Blobs
    wall: IsolationProbe
    doomed: Callable[[], AbstractAsyncContextManager[VictimWorker]]
    """Entered when it is ready to claim; dead when left."""
    sweep_every: timedelta
