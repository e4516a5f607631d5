"""Heartbeats on their own thread, loop and connection, so that no handler can delay them; they stop last.

A failed beat says nothing about the lease: it may still hold until the local deadline, which is counted from when the
last accepted beat was sent. Then the handler is stopped, before another worker can have claimed the job.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import timedelta

import structlog

from app.domain.errors import Unavailable
from app.domain.jobs import Progress
from app.domain.leases import BeatResult, Lease, LeaseBeat
from app.ports.leases import Leases
from app.services.execution import Interruption
from app.telemetry import RepeatedEvents


class HeldLease:
    """A lease held by this worker: the time of its last renewal, the job's progress, and the task to stop.

    The handler's loop and the heartbeat's thread share it.
    """

    def __init__(
        self,
        lease: Lease,
        *,
        claimed_at: float,
        length: timedelta,
        begin_recognition: Callable[[], bool] = lambda: True,
    ) -> None:
        """`claimed_at` (monotonic) is when the claim was sent, so the local deadline is never after the database's."""
        self.lease = lease
        self._loop = asyncio.get_running_loop()
        self._length = length.total_seconds()
        self._lock = threading.Lock()
        self._renewed_at = claimed_at
        self._progress: Progress | None = None
        self._reported: Progress | None = None
        self._interruption: Interruption | None = None
        self._work: asyncio.Task[object] | None = None
        self.must_yield = False
        self._begin_recognition = begin_recognition

    @property
    def interruption(self) -> Interruption | None:
        return self._interruption

    @property
    def progress(self) -> Progress | None:
        return self._progress

    def report(self, progress: Progress) -> None:
        self._progress = progress

    def begin_recognition(self) -> bool:
        return self._begin_recognition()

    def watch(self, work: asyncio.Task[object]) -> None:
        with self._lock:
            self._work = work
            stop = self._interruption is not None
        if stop:
            work.cancel()

    def interrupt(self, why: Interruption) -> None:
        """Stop the handler; callable from any thread. The first reason stands.

        Only a lost lease overrides it, because then nothing may be written.
        """
        with self._lock:
            if self._interruption is None or why is Interruption.LEASE_LOST:
                self._interruption = why
            work = self._work
        if work is not None:
            self._loop.call_soon_threadsafe(work.cancel)

    def pulse(self, *, now: float) -> LeaseBeat | None:
        """Return a beat if one is due: after a third of the lease, or when there is new progress."""
        progress = self._progress
        new = progress if progress != self._reported else None
        if new is None and now - self._renewed_at < self._length / 3:
            return None
        return LeaseBeat(lease=self.lease, progress=new)

    def renewed(self, pulse: LeaseBeat, *, sent_at: float) -> None:
        self._renewed_at = sent_at
        self._reported = pulse.progress or self._reported

    def left(self, *, now: float) -> float:
        """Return the seconds until the local deadline; negative once it has passed."""
        return self._renewed_at + self._length - now


def monotonic() -> float:
    """Return seconds of the local clock; the database measures leases, and this clock only bounds them."""
    return time.monotonic()


log = structlog.get_logger()

TICK = 1.0
"""Seconds between looks at the leases: progress is reported and a passed deadline noticed within this time."""

OpenLeases = Callable[[], AbstractAsyncContextManager[Leases]]


class Heartbeat:
    def __init__(self, open_leases: OpenLeases, *, lease: timedelta) -> None:
        """`open_leases` is entered on the heartbeat's own thread, because a connection belongs to one loop."""
        self._open_leases = open_leases
        self._length = lease
        self._repeated = RepeatedEvents()
        self._holds: set[HeldLease] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._beat()), name="heart", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        self._stopping.set()
        await asyncio.to_thread(self._thread.join)

    @contextmanager
    def hold(
        self, lease: Lease, *, claimed_at: float, begin_recognition: Callable[[], bool] = lambda: True
    ) -> Iterator[HeldLease]:
        """Send beats for this lease while the context lasts."""
        hold = HeldLease(lease, claimed_at=claimed_at, length=self._length, begin_recognition=begin_recognition)
        self._holds.add(hold)
        try:
            yield hold
        finally:
            self._holds.remove(hold)

    def interrupt_all(self, why: Interruption) -> None:
        for hold in self._holds.copy():
            hold.interrupt(why)

    async def _beat(self) -> None:
        async with self._open_leases() as leases:
            while not self._stopping.is_set():
                await self._tick(leases)
                await asyncio.sleep(TICK)

    async def _tick(self, leases: Leases) -> None:
        now = monotonic()
        # Copied in one step, because attempts begin and end on the other thread.
        holds = {hold.lease: hold for hold in self._holds.copy() if not _is_over(hold, now=now)}
        pulses = [pulse for hold in holds.values() if (pulse := hold.pulse(now=now))]
        if not pulses:
            return
        try:
            # Never past a deadline, because deadlines are checked between beats.
            nearest = min(hold.left(now=now) for hold in holds.values())
            async with asyncio.timeout(min(nearest, self._length.total_seconds() / 6)):
                beats = await leases.beat(pulses, lease=self._length)
        except (Unavailable, TimeoutError) as error:
            if self._repeated.due("beat_failed"):
                log.warning("beat_failed", leases=len(pulses), reason=str(error) or "timed out")
            return
        except Exception:  # heartbeats must go on: without them every lease of this worker expires
            log.exception("beat_failed", leases=len(pulses))
            return
        _answer(beats, holds=holds, pulses={pulse.lease: pulse for pulse in pulses}, sent_at=now)


def _is_over(hold: HeldLease, *, now: float) -> bool:
    """Return True past the local deadline, from when another worker may claim the job; then interrupt its handler."""
    over = hold.left(now=now) <= 0
    if over:
        hold.interrupt(Interruption.LEASE_LOST)
    return over


def _answer(
    beats: list[BeatResult], *, holds: dict[Lease, HeldLease], pulses: dict[Lease, LeaseBeat], sent_at: float
) -> None:
    for beat in beats:
        hold = holds[beat.lease]
        if not beat.held:
            hold.interrupt(Interruption.LEASE_LOST)
            continue
        hold.renewed(pulses[beat.lease], sent_at=sent_at)
        if beat.cancel_requested:
            hold.interrupt(Interruption.CANCELLED)


@contextlib.asynccontextmanager
async def shared_leases(leases: Leases) -> AsyncIterator[Leases]:
    """Open leases of a store that any loop may use."""
    yield leases
