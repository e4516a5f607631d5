"""Ports of the worker: claim, beat and settle leases, sweep for lost work, and handle one kind of job.

Each call on leases serves many jobs of many tenants in one round trip. It sets the clamp for every tenant in turn, so a
job named under a wrong tenant is missing, not claimed. Only the sweeper looks across tenants, to find those with due
work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from app.domain.doorbells import Ring
from app.domain.ids import TenantId
from app.domain.jobs import Progress
from app.domain.leases import BeatResult, ClaimedJob, ClaimResult, LeaseBeat, SettledAttempt, Settlement
from app.domain.outcomes import Outcome


class Leases(Protocol):
    async def claim(
        self,
        rings: Sequence[Ring],
        *,
        worker: str,
        lease: timedelta,
        kinds: frozenset[str],
        recognition: int | None = None,
    ) -> list[ClaimResult]:
        """Answer each distinct doorbell, in any order. At most one caller gets CLAIMED for an attempt.

        A job of a kind not in `kinds` is put off by a minute, without counting against it (UNKNOWN_KIND).
        `recognition` is the number of free recognition slots: no more of the jobs that wait for one are claimed. None
        means that the caller does not tell them apart.
        """
        ...

    async def beat(self, pulses: Sequence[LeaseBeat], *, lease: timedelta) -> list[BeatResult]:
        """Extend the leases that still hold, starting at the database's present time.

        A job that another transaction is writing to may be left out of the answer. It is then neither renewed nor lost.
        """
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettledAttempt | None]:
        """End attempts, in the given order. None where the lease is lost and nothing was written."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptJob:
    """A job that a pass of the sweeper found."""

    ring: Ring
    kind: str
    expired: bool
    """True where its lease had run out. Otherwise it was due and its bell seems lost."""
    due: bool
    """True where the job is queued now and is to be rung. False where its last lease ran out and it has failed."""
    delay: timedelta = timedelta()
    """The time until it is to be rung. A job that lost two workers is tried again at a time of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The work of one kind over all tenants, read from the table."""

    kind: str
    due: int
    scheduled: int
    running: int
    stuck: int
    """Claimed jobs whose lease has expired."""
    oldest_due: timedelta
    """The time for which the oldest due job has been due; zero when none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupBlockers:
    """Causes that keep the database from cleaning up, as far as the program's own login may see them."""

    dead: Mapping[str, int]
    """Rows that vacuum has not removed yet, by table."""
    live: Mapping[str, int]
    """Live rows by table, as the server estimates them."""
    oldest_snapshot: timedelta
    """The age of the oldest snapshot. Sessions of other logins are not visible."""
    oldest_transactions: int
    """The age, in transactions, of the oldest transaction that still runs, is prepared, or is kept for a replica."""


class Sweeps(Protocol):
    async def now(self) -> datetime:
        """Return the store's present time."""
        ...

    async def tenants_with_due_work(
        self, *, limit: int, early: frozenset[str] | None = None, recognition: bool | None = None
    ) -> list[TenantId]:
        """Return tenants with a bell to ring again or an expired lease.

        `early` is for a worker that asks for work of these kinds: any due job counts, however recently it was rung.
        `recognition` limits it to jobs that wait for a recognition slot (True) or to the others (False).
        """
        ...

    async def tenants(self, *, after: TenantId | None, limit: int) -> list[TenantId]:
        """Return a page of the registry in order of names, with or without work."""
        ...

    async def sweep(
        self,
        tenants: Sequence[TenantId],
        *,
        limit: int,
        early: frozenset[str] | None = None,
        recognition: bool | None = None,
    ) -> list[SweptJob]:
        """Under each tenant's clamp, end expired leases and put off the next ring of at most `limit` jobs each.

        It is committed when it returns. The caller rings afterwards, and a failed ring costs one interval.
        """
        ...

    async def backlog(self) -> list[Backlog]: ...

    async def wear(self) -> CleanupBlockers: ...


class ProgressReporter(Protocol):
    def report(self, progress: Progress) -> None:
        """Record the job's progress. It is written with the next heartbeat, so any number of calls is cheap."""
        ...

    @property
    def must_yield(self) -> bool:
        """True once another tenant waits for this job's slot: store what is done, and return Yield."""
        ...

    def begin_recognition(self) -> bool:
        """Take one of the worker's recognition slots until the attempt ends; False if none is free."""
        ...


class Handler(Protocol):
    @property
    def kind(self) -> str: ...

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        """Do the work with no transaction open, and return the outcome.

        It is cancelled when the lease is lost, the job is cancelled, or the worker stops; it must leave nothing behind.
        An exception means Retry, DocumentFault means Fail with its code.
        """
        ...
