"""A held lease, as the heart sees it: when it was last renewed, how far the job is, and whom to stop."""

import asyncio
import threading
import time
from datetime import timedelta

from app.domain.jobs import Progress
from app.domain.leases import Lease, Pulse
from app.services.execution import Interruption


class JobHold:
    """Shared by the handler's loop and the heart's thread."""

    def __init__(self, lease: Lease, *, claimed_at: float, length: timedelta) -> None:
        """`claimed_at` (monotonic) is when the claim was sent, so that the local deadline is never the later one."""
        self.lease = lease
        self._loop = asyncio.get_running_loop()
        self._length = length.total_seconds()
        self._lock = threading.Lock()
        self._renewed_at = claimed_at
        self._progress: Progress | None = None
        self._told: Progress | None = None
        self._interruption: Interruption | None = None
        self._work: asyncio.Task[object] | None = None

    @property
    def interruption(self) -> Interruption | None:
        return self._interruption

    @property
    def progress(self) -> Progress | None:
        return self._progress

    def report(self, progress: Progress) -> None:
        self._progress = progress

    def watch(self, work: asyncio.Task[object]) -> None:
        with self._lock:
            self._work = work
            stop = self._interruption is not None
        if stop:
            work.cancel()

    def interrupt(self, why: Interruption) -> None:
        """From any thread. The first reason stands, but a lost lease overrides: then nothing may be written."""
        with self._lock:
            if self._interruption is None or why is Interruption.LEASE_LOST:
                self._interruption = why
            work = self._work
        if work is not None:
            self._loop.call_soon_threadsafe(work.cancel)

    def pulse(self, *, now: float) -> Pulse | None:
        """Due at a third of the lease, or when there is progress to tell."""
        progress = self._progress
        told = progress if progress != self._told else None
        if told is None and now - self._renewed_at < self._length / 3:
            return None
        return Pulse(lease=self.lease, progress=told)

    def renewed(self, pulse: Pulse, *, sent_at: float) -> None:
        self._renewed_at = sent_at
        self._told = pulse.progress or self._told

    def left(self, *, now: float) -> float:
        """Seconds until the local deadline; negative when it has passed."""
        return self._renewed_at + self._length - now


def monotonic() -> float:
    """Seconds; local, for leases are measured by the database and only bounded here."""
    return time.monotonic()
