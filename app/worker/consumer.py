"""One lane's consumer. It takes a slot before it asks for a doorbell, so that no doorbell waits here unanswered."""

import asyncio
from datetime import timedelta
from typing import Protocol

import structlog

from app.domain.errors import Unavailable
from app.domain.leases import ClaimedJob
from app.ports.doorbell import Doorbell, DoorbellDelivery
from app.services.execution import Execution
from app.telemetry import Metrics
from app.worker.heartbeat import Heartbeat, monotonic

log = structlog.get_logger()

SHORTEST_PATIENCE = timedelta(seconds=1)
"""An idle worker's first early pass comes this soon; each that finds nothing doubles it, up to the sweep's interval."""

LONGEST_PATIENCE = timedelta(minutes=1)

SILENT_AFTER = timedelta(minutes=3)
"""The loop reports success at least once in the longest patience, and every 10 s while all slots are taken."""

BACKOFF = timedelta(seconds=1)
"""The pause after the queue or the database could not be reached."""


AT_ONCE = 500
"""Doorbells in one claim. A larger batch gains nothing, and nothing else runs while its answer is read."""


class EarlySweep(Protocol):
    async def __call__(self, *, early: frozenset[str]) -> int: ...


class Consumer:
    def __init__(
        self,
        *,
        lane: str,
        kinds: frozenset[str],
        slots: int,
        doorbell: Doorbell,
        execution: Execution,
        heart: Heartbeat,
        early_pass: EarlySweep,
        sweep_every: timedelta,
        metrics: Metrics,
    ) -> None:
        self.lane = lane
        self._kinds = kinds
        self._slots = slots
        self._doorbell = doorbell
        self._execution = execution
        self._heart = heart
        self._early_pass = early_pass
        self._longest_patience = min(sweep_every, LONGEST_PATIENCE)
        self._metrics = metrics
        self._patience = SHORTEST_PATIENCE
        self._running: set[asyncio.Task[None]] = set()
        self._acknowledging: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Answer doorbells until stopped. Jobs that run then go on, see `drain`."""
        self._metrics.loop_started(f"consumer:{self.lane}", silent_after=SILENT_AFTER.total_seconds())
        while not self._stopping.done():
            try:
                await self._turn()
            except Unavailable as error:
                log.warning("consumer_waits", lane=self.lane, reason=str(error))
                # Rings of the meantime are likely lost: do not wait for them when the queue is back.
                self._patience = timedelta()
                await asyncio.sleep(BACKOFF.total_seconds())
            except Exception:  # without its consumer the lane would stand still
                log.exception("consumer_failed", lane=self.lane)
                await asyncio.sleep(BACKOFF.total_seconds())
            else:
                self._metrics.loop_succeeded(f"consumer:{self.lane}")

    async def stop(self) -> None:
        """Ask for no more doorbells."""
        if not self._stopping.done():
            self._stopping.set_result(None)
        await self._doorbell.stop_answering()

    async def drain(self, *, at_most: timedelta | None = None) -> None:
        """Wait until all running jobs have ended, or for `at_most`."""
        if unfinished := self._running | self._acknowledging:
            await asyncio.wait(unfinished, timeout=None if at_most is None else at_most.total_seconds())

    async def _turn(self) -> None:
        free = await self._free_slots()
        if not free:
            return
        deliveries = await self._doorbell.answer(limit=free, wait=self._patience)
        if deliveries:
            await self._answer(deliveries)
        elif not self._stopping.done():
            await self._idle()

    async def _free_slots(self) -> int:
        """Wait for free slots and return their number; 0 if the consumer is stopped while all are taken."""
        while len(self._running) >= self._slots and not self._stopping.done():
            # With a long job in every slot, the loop still reports that it lives.
            waited_for = {*self._running, self._stopping}
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED, timeout=10)
            self._metrics.loop_succeeded(f"consumer:{self.lane}")
        return min(self._slots - len(self._running), AT_ONCE)

    async def _answer(self, deliveries: list[DoorbellDelivery]) -> None:
        self._metrics.doorbells.labels("received").inc(len(deliveries))
        sent_at = monotonic()
        jobs = await self._execution.claim([delivery.ring for delivery in deliveries], kinds=self._kinds)
        for job in jobs:
            self._start(job, claimed_at=sent_at)
        # The claim answers a doorbell, whatever its outcome, so the receipt need not live as long as the handler. The
        # next doorbells do not wait for the acknowledgement.
        _reference(asyncio.create_task(self._acknowledge(deliveries)), self._acknowledging)
        if jobs:
            self._patience = SHORTEST_PATIENCE

    def _start(self, job: ClaimedJob, *, claimed_at: float) -> None:
        task = asyncio.create_task(self._attempt(job, claimed_at=claimed_at), name=f"{job.kind} {job.lease.job_id}")
        _reference(task, self._running)

    async def _acknowledge(self, deliveries: list[DoorbellDelivery]) -> None:
        try:
            await self._doorbell.acknowledge(deliveries)
        except Unavailable as error:  # the doorbells come again, and the claim finds their jobs taken
            log.warning("acknowledge_failed", lane=self.lane, count=len(deliveries), reason=str(error))

    async def _attempt(self, job: ClaimedJob, *, claimed_at: float) -> None:
        with self._heart.hold(job.lease, claimed_at=claimed_at) as hold:
            try:
                await self._execution.run(job, hold)
            except Exception:  # the lease runs out and the sweeper takes over
                log.exception("attempt_failed", job_id=str(job.lease.job_id))

    async def _idle(self) -> None:
        """Look for lost doorbells while the queue is empty, sooner than the sweep would."""
        rung = await self._early_pass(early=self._kinds)
        longer = min(self._patience * 2, self._longest_patience)
        self._patience = SHORTEST_PATIENCE if rung else max(longer, SHORTEST_PATIENCE)


def _reference(task: asyncio.Task[None], tasks: set[asyncio.Task[None]]) -> None:
    """Hold the task in this set until it is done, because the loop itself holds no strong reference to it."""
    tasks.add(task)
    task.add_done_callback(tasks.discard)
