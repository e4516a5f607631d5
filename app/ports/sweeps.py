"""What the sweeper needs: who has due work (the only look across tenants), and a pass over those tenants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from app.domain.doorbells import Ring
from app.domain.ids import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """One job that a pass found."""

    ring: Ring
    kind: str
    expired: bool
    """Its lease had run out; otherwise it was due and its bell seems lost."""
    due: bool
    """To be rung: it is queued now. False where its last lease ran out and it has failed."""
    delay: timedelta = timedelta()
    """Until it is to be rung: what lost two workers is tried once more at a time of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The work of one kind, over all tenants, read from the table."""

    kind: str
    due: int
    scheduled: int
    running: int
    stuck: int
    """Claimed, and the lease is over."""
    oldest_due: timedelta
    """Since when the longest waiting due job is due; zero when none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wear:
    """What keeps the database from cleaning up, as far as the program's own login is shown it."""

    dead: Mapping[str, int]
    """Rows that vacuum has not removed yet, by table."""
    live: Mapping[str, int]
    """Rows that are, by table: the server's estimate."""
    oldest_snapshot: timedelta
    """Since when the oldest snapshot is held. Sessions of other logins are not shown."""
    oldest_transactions: int
    """How many transactions ago the oldest one began that still runs, is prepared, or is kept for a replica."""


class Sweeps(Protocol):
    async def tenants_with_due_work(self, *, limit: int, early: frozenset[str] | None = None) -> list[TenantId]:
        """Tenants with a bell to ring again or a lease that ran out.

        `early`, for an idle worker whose queue is empty: any due job of these kinds counts.
        """
        ...

    async def tenants(self, *, after: TenantId | None, limit: int) -> list[TenantId]:
        """The registry in order of names, page by page, whether there is work or not."""
        ...

    async def sweep(
        self, tenants: Sequence[TenantId], *, limit: int, early: frozenset[str] | None = None
    ) -> list[Swept]:
        """Under each tenant's clamp: end leases that ran out, and put off the next ring of at most `limit` jobs each.

        Committed when it returns, so that the caller rings afterwards and a ring that fails costs one interval.
        """
        ...

    async def backlog(self) -> list[Backlog]: ...

    async def wear(self) -> Wear: ...
