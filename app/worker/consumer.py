"""One lane's consumer. It takes a slot before it asks for a doorbell, so that no doorbell waits here unanswered.

A lane may have recognition slots: no more of its jobs do OCR at a time, and the other slots are for documents that need
none. A job that needs OCR while none of them is free is put back, and claimed again when one becomes free. So nothing
that needs no OCR waits for what does.
"""

import asyncio
from datetime import timedelta

import structlog

from app.domain.doorbells import Lane, Ring
from app.domain.errors import Unavailable
from app.domain.leases import ClaimedJob, ClaimOutcome
from app.ports.doorbell import Doorbell, DoorbellDelivery
from app.services.execution import Execution
from app.services.sweeping import Sweeper
from app.telemetry import Metrics, RepeatedEvents
from app.worker.fairness import RunningJob, SlotSharing, beside
from app.worker.heartbeat import Heartbeat, monotonic

log = structlog.get_logger()

SHORTEST_PATIENCE = timedelta(seconds=1)
"""An idle worker's first early pass comes this soon; each that finds nothing doubles it, up to the sweep's interval."""

LONGEST_PATIENCE = timedelta(minutes=1)

SILENT_AFTER = timedelta(minutes=3)
"""The loop reports success at least once in the longest patience, and every 10 s while all slots are taken."""

UNHEARD_AFTER = timedelta(minutes=2)
"""Early passes ring for due jobs, and an idle consumer hears some of these rings within seconds. After so long without
one, the queue's connections are made anew; after as long again, the process ends."""

UNANSWERED_AFTER = timedelta(minutes=1)
"""The longest that the queue may take beyond the wait that it was asked for."""

BACKOFF = timedelta(seconds=1)
"""The pause after the queue or the database could not be reached."""

LOOK_AGAIN = 0.1
"""Seconds between two looks at a closed gate."""

AT_ONCE = 500
"""Doorbells in one claim. A larger batch gains nothing, and nothing else runs while its answer is read."""


class SilentQueueError(Exception):
    """The queue answers and takes rings, and delivers none. Only a new process may help."""


class Consumer:
    def __init__(
        self,
        *,
        lane: Lane,
        kinds: frozenset[str],
        slots: int,
        doorbell: Doorbell,
        execution: Execution,
        heart: Heartbeat,
        sweeping: Sweeper,
        sweep_every: timedelta,
        metrics: Metrics,
        recognition: int | None = None,
    ) -> None:
        """`recognition` is the number of the `slots` in which jobs may do OCR; None where any number may."""
        self.lane = lane
        self._kinds = kinds
        self._slots = slots
        self._doorbell = doorbell
        self._execution = execution
        self._heart = heart
        self._sweeping = sweeping
        self._longest_patience = min(sweep_every, LONGEST_PATIENCE)
        self._metrics = metrics
        self._repeated = RepeatedEvents()
        self._patience = SHORTEST_PATIENCE
        self._unheard_since: float | None = None
        self._reconnected = False
        self._unclaimed: list[DoorbellDelivery] = []
        self._running: dict[asyncio.Task[None], RunningJob] = {}
        self._sharing = SlotSharing(
            lane=lane,
            kinds=kinds,
            slots=slots,
            recognition=recognition,
            running=self._running.values(),
            sweeping=sweeping,
            ringing=execution.ringing,
            claim=self._claim,
        )
        self._acknowledging: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Answer doorbells until stopped. Jobs that run then go on, see `drain`. Raises SilentQueueError."""
        self._metrics.loop_started(f"consumer:{self.lane}", silent_after=SILENT_AFTER.total_seconds())
        sharing = asyncio.create_task(self._sharing.run(), name=f"share {self.lane}")
        try:
            await self._consume()
        finally:
            sharing.cancel()
            await asyncio.gather(sharing, return_exceptions=True)
            await self._sharing.close()

    async def _consume(self) -> None:
        while not self._stopping.done():
            try:
                await self._turn()
            except Unavailable as error:
                if self._repeated.due("consumer_waits"):
                    log.warning("consumer_waits", lane=self.lane, reason=str(error))
                # Rings of the meantime are likely lost: do not wait for them when the queue is back.
                self._patience = timedelta()
                self._unheard_since = None
                await asyncio.sleep(BACKOFF.total_seconds())
            except SilentQueueError:
                raise
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
        if unfinished := self._running.keys() | self._acknowledging:
            await asyncio.wait(unfinished, timeout=None if at_most is None else at_most.total_seconds())

    async def _turn(self) -> None:
        free = await self._free_slots()
        await self._open_gates()
        if not free or self._stopping.done():
            return
        deliveries = self._unclaimed or await self._listen(limit=free)
        if deliveries:
            self._unheard_since, self._reconnected = None, False
            self._unclaimed = deliveries[free:]
            await self._answer(deliveries[:free])
        elif not self._stopping.done():
            await self._idle()

    async def _listen(self, *, limit: int) -> list[DoorbellDelivery]:
        try:
            async with asyncio.timeout((self._patience + UNANSWERED_AFTER).total_seconds()):
                deliveries = await self._doorbell.answer(limit=limit, wait=self._patience)
        except TimeoutError:
            raise Unavailable("the queue does not answer") from None
        self._metrics.doorbells.labels("received").inc(len(deliveries))
        return deliveries

    async def _open_gates(self) -> None:
        """Wait while the lane's jobs could only be put back. Their doorbells are left to workers that can do them."""
        while self._execution.gates.is_closed(self.lane) and not self._stopping.done():
            await asyncio.wait({self._stopping}, timeout=LOOK_AGAIN)
            self._metrics.loop_succeeded(f"consumer:{self.lane}")

    async def _free_slots(self) -> int:
        """Wait for free slots and return their number; 0 if the consumer is stopped while all are taken."""
        while len(self._running) >= self._slots and not self._stopping.done():
            # With a long job in every slot, the loop still reports that it lives.
            waited_for = {*self._running, self._stopping}
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED, timeout=10)
            self._metrics.loop_succeeded(f"consumer:{self.lane}")
        return min(self._slots - len(self._running), AT_ONCE)

    async def _answer(self, deliveries: list[DoorbellDelivery]) -> None:
        try:
            jobs = await self._claim([delivery.ring for delivery in deliveries])
        except Unavailable:
            # A queue may hand out a doorbell only once.
            self._unclaimed += deliveries
            raise
        # The claim answers a doorbell, whatever its outcome, so the receipt need not live as long as the handler. The
        # next doorbells do not wait for the acknowledgement.
        beside(self._acknowledge(deliveries), self._acknowledging)
        if jobs:
            self._patience = SHORTEST_PATIENCE

    async def _claim(self, rings: list[Ring], *, recognizing: bool = False) -> list[ClaimedJob]:
        """Claim the jobs of these rings and start them; `recognizing` gives each of them a recognition slot."""
        sent_at = monotonic()
        claims = await self._execution.claim(rings, kinds=self._kinds, recognition=self._sharing.free_recognition)
        jobs = [claim.job for claim in claims if claim.job is not None]
        for job in jobs:
            self._start(job, claimed_at=sent_at, recognizing=recognizing)
        self._sharing.ring_on([claim.ring for claim in claims if claim.outcome is ClaimOutcome.RECOGNITION])
        return jobs

    def _start(self, job: ClaimedJob, *, claimed_at: float, recognizing: bool) -> None:
        running = RunningJob(tenant_id=job.lease.tenant_id, is_recognizing=recognizing)
        attempt = self._attempt(job, running, claimed_at=claimed_at)
        task = asyncio.create_task(attempt, name=f"{job.kind} {job.lease.job_id}")
        self._running[task] = running
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        freed = self._running.pop(task).is_recognizing
        if freed and not self._stopping.done() and not self._execution.gates.is_closed(self.lane):
            self._sharing.fill()

    async def _acknowledge(self, deliveries: list[DoorbellDelivery]) -> None:
        try:
            await self._doorbell.acknowledge(deliveries)
        except Unavailable as error:  # the doorbells come again, and the claim finds their jobs taken
            if self._repeated.due("acknowledge_failed"):
                log.warning("acknowledge_failed", lane=self.lane, count=len(deliveries), reason=str(error))

    async def _attempt(self, job: ClaimedJob, running: RunningJob, *, claimed_at: float) -> None:
        def begin_recognition() -> bool:
            return self._sharing.begin_recognition(running, Ring(job.lease.tenant_id, job.lease.job_id))

        with self._heart.hold(job.lease, claimed_at=claimed_at, begin_recognition=begin_recognition) as hold:
            running.hold = hold
            try:
                await self._execution.run(job, hold)
            except Exception:  # the lease runs out and the sweeper takes over
                log.exception("attempt_failed", job_id=str(job.lease.job_id))

    async def _idle(self) -> None:
        """Look for lost doorbells while the queue is empty, sooner than the sweep would."""
        rung = await self._sweeping.sweep(
            early=self._kinds, recognition=None if self._sharing.free_recognition != 0 else False
        )
        longer = min(self._patience * 2, self._longest_patience)
        self._patience = SHORTEST_PATIENCE if rung else max(longer, SHORTEST_PATIENCE)
        await self._judge_silence(rung)

    async def _judge_silence(self, rung: int) -> None:
        """Notice a queue that takes rings and delivers none: a connection that answers is not yet one that works."""
        if not rung:
            self._unheard_since, self._reconnected = None, False
            return
        now = monotonic()
        since = self._unheard_since = self._unheard_since or now
        if now - since < UNHEARD_AFTER.total_seconds():
            return
        # One that takes no rings is away, which is no secret: it is waited for.
        await self._doorbell.ping()
        if self._reconnected:
            raise SilentQueueError(
                f"the queue takes doorbells of lane {self.lane} and delivers none, on new connections too, though"
                f" {rung} jobs are due; check that DAIRA_QUEUE_URL leads to one server that takes writes"
            )
        log.warning("queue_silent", lane=self.lane, due=rung, seconds=round(now - since))
        self._unheard_since, self._reconnected = now, True
        await self._doorbell.reconnect()
