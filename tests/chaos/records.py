"""The records of a soak test: from the database, from the log of executions, and from the fault injector.

Times are seconds of this machine's monotonic clock, which all of its processes share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.domain.ids import JobId
from app.domain.jobs import AttemptOutcome, JobState
from tests.chaos.load import Planned


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    job_id: JobId
    tenant: str
    state: JobState
    attempts: int = 0
    failures: int = 0
    expiries: int = 0
    releases: int = 0
    error: str | None = None
    """Its code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row of `job_attempts`."""

    attempt: int
    outcome: AttemptOutcome
    started_at: float
    finished_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One run of the handler, as it noted itself outside the product."""

    job_id: JobId
    tenant: str
    attempt: int
    pid: int
    started_at: float
    event: str | None = None
    """end, raised or stopped; None: it never got there."""
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """What may cost a lease: to one worker process, or, without a pid, to all of them."""

    name: str
    pid: int | None
    began_at: float
    ended_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that is known of one job."""

    planned: Planned
    row: JobRow | None
    entries: Sequence[Entry] = ()
    """By attempt."""
    results: Sequence[object] = ()
    executions: Sequence[Execution] = ()
    """By start."""
    cancelled_at_attempt: int | None = None
    """How many attempts it had had when a request to cancel was answered with `cancelled`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    cases: Mapping[JobId, Case]
    harms: Sequence[Harm]
    lease: float
    strangers: Sequence[str] = field(default_factory=list)
    """Rows, results and executions of jobs that nobody enqueued."""
