"""Claim, beat, settle: the worker's hot path, each for many jobs of many tenants in one round trip.

Each sets the clamp for every tenant in turn, so a job named under a wrong tenant is missing, not claimed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from app.domain.doorbells import Ring
from app.domain.ids import TenantId
from app.domain.jobs import Progress
from app.domain.leases import BeatResult, Claim, ClaimedJob, LeaseBeat, SettledAttempt, Settlement
from app.domain.outcomes import Outcome


class Leases(Protocol):
    async def claim(
        self, rings: Sequence[Ring], *, worker: str, lease: timedelta, kinds: frozenset[str]
    ) -> list[Claim]:
        """Answer each distinct doorbell, in any order: at most one caller is told CLAIMED for an attempt.

        A claimed job of a kind not in `kinds` is put off by a minute, uncounted (UNKNOWN_KIND).
        """
        ...

    async def beat(self, pulses: Sequence[LeaseBeat], *, lease: timedelta) -> list[BeatResult]:
        """Extend those leases that still hold, from the database's now.

        A job that is being written to just now may be left out of the answer: neither renewed nor lost.
        """
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettledAttempt | None]:
        """End attempts, in the given order; None where the lease is lost and nothing was written."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptJob:
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
class CleanupBlockers:
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
    ) -> list[SweptJob]:
        """Under each tenant's clamp: end leases that ran out, and put off the next ring of at most `limit` jobs each.

        Committed when it returns, so that the caller rings afterwards and a ring that fails costs one interval.
        """
        ...

    async def backlog(self) -> list[Backlog]: ...

    async def wear(self) -> CleanupBlockers: ...


class Reporter(Protocol):
    def report(self, progress: Progress) -> None:
        """Note how far the job is; written with the next beat, so it may be called as often as one likes."""
        ...


class Handler(Protocol):
    @property
    def kind(self) -> str: ...

    async def run(self, job: ClaimedJob, reporter: Reporter) -> Outcome:
        """Do the work with no transaction open, and say how it ended.

        Cancelled when the lease is lost, the job is cancelled, or the worker stops: leave nothing behind.
        An exception means Retry, DocumentFault means Fail with its code.
        """
        ...
