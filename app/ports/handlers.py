"""A handler does the work of one job kind."""

from typing import Protocol

from app.domain.jobs import Progress
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Outcome


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
