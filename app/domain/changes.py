"""Changes of a tenant's jobs since a position, and the events that streams and long polls send.

See docs/decisions/0030.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NewType

from app.domain.ids import JobId
from app.domain.jobs import Job, Progress

Position = NewType("Position", str)
"""The point up to which a tenant's changes are seen. The store chooses its format, which fits a header.
All other code treats it as opaque."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeWindow:
    """The changes that `since` does not see and `upto` does. `upto` None means all changes committed by now."""

    since: Position
    upto: Position | None = None
    after: tuple[int, JobId] | None = None
    """The last change of the previous page, in the store's own order, when a window is read in pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePage:
    """A page of a window, with the jobs as their changes left them."""

    upto: Position
    jobs: Sequence[Job]
    rest: ChangeWindow | None
    """The remaining pages; None after the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePage:
    """A page of jobs in their present state, in order of their ids."""

    jobs: Sequence[Job]
    rest: JobId | None
    """The last id of this page; the remaining pages lie beyond it. None after the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEvent:
    """A job in its present state."""

    job: Job
    position: Position | None = None
    """The position to continue from. Only a batch's last event has it, so that an interrupted batch is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressEvent:
    job_id: JobId
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionEvent:
    """A position to continue from, without a job."""

    position: Position


ChangeEvent = StateEvent | ProgressEvent | PositionEvent
