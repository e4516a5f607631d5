"""What a job has become, since a position: what streams and long polls are told. See docs/decisions/0030."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NewType

from app.domain.ids import JobId
from app.domain.jobs import Job, Progress

Position = NewType("Position", str)
"""Up to where a tenant's changes are seen. In the store's own words, fit for a header; opaque to all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeWindow:
    """The changes that are not seen from `since`, and are seen from `upto`; None: all that are committed by now."""

    since: Position
    upto: Position | None = None
    after: tuple[int, JobId] | None = None
    """Of a window that is read in pages: beyond this change, in the store's own order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePage:
    """A page of a window: the jobs as their changes left them."""

    upto: Position
    jobs: Sequence[Job]
    rest: ChangeWindow | None
    """The pages to come; None: this was the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePage:
    """A page of jobs as they are, in order of their ids."""

    jobs: Sequence[Job]
    rest: JobId | None
    """The pages to come are beyond it; None: this was the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEvent:
    """A job as it is now."""

    job: Job
    position: Position | None = None
    """Where to go on from: told with the last event of a batch alone, so that a batch cut short is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressEvent:
    job_id: JobId
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionEvent:
    """Nothing but where to go on from."""

    position: Position


Event = StateEvent | ProgressEvent | PositionEvent
