"""The worker: consumers of the lanes, heartbeats, and background loops; and the order in which they stop.

Each turn of a loop has a deadline, an error costs one turn, and the time since the last success is reported.
"""

import asyncio
import math
import random
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from app.services.execution import Interruption
from app.services.maintenance import Maintenance
from app.services.purging import Purger
from app.services.sweeping import Sweeper
from app.telemetry import Metrics
from app.worker.consumer import Consumer, SilentQueueError
from app.worker.heartbeat import Heartbeat

log = structlog.get_logger()


async def run_periodically(
    name: str,
    turn: Callable[[], Awaitable[object]],
    *,
    every: timedelta,
    deadline: timedelta,
    metrics: Metrics,
    after: timedelta = timedelta(),
    vital: bool = True,
) -> None:
    """Run `turn` every so often until cancelled, first after `after`.

    The process is not ready while a vital loop has not succeeded for long.
    """
    # Three turns may fail, each as late as its deadline.
    metrics.loop_started(name, silent_after=3 * (every + deadline).total_seconds() if vital else math.inf)
    await asyncio.sleep(after.total_seconds())
    while True:
        try:
            async with asyncio.timeout(deadline.total_seconds()):
                await turn()
        except Exception as error:  # a loop must not die, because recovery depends on it: log, and try again
            log.warning("loop_failed", loop=name, exc_info=error)
        else:
            metrics.loop_succeeded(name)
        await asyncio.sleep(every.total_seconds())


FULL_PASS_EVERY = timedelta(minutes=10)
PURGE_AFTER = timedelta(minutes=10)
"""The longest random delay of the first purge, so that workers started together don't list the blob store at once."""

UPKEEP_EVERY = timedelta(hours=1)
UPKEEP_AFTER = timedelta(minutes=1)
"""The longest random delay of the first maintenance, for the same reason."""


def _terminate() -> None:
    """Stop this process as its supervisor would: running jobs get their grace."""
    signal.raise_signal(signal.SIGTERM)


@dataclass(slots=True, kw_only=True)
class Worker:
    name: str
    """The name under which its jobs are claimed."""
    consumers: Sequence[Consumer]
    heart: Heartbeat
    sweeping: Sweeper
    sweep_every: timedelta
    purging: Purger
    purge_every: timedelta
    upkeep: Maintenance
    grace: timedelta
    metrics: Metrics
    terminate: Callable[[], object] = _terminate
    failure: str | None = None
    """The reason why it ended itself: the process has to end with a status that has it restarted."""
    _consuming: list[asyncio.Task[None]] = field(default_factory=list)
    _sweeping: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        self.heart.start()
        self._consuming = [
            asyncio.create_task(self._consume(consumer), name=f"consumer {consumer.lane}")
            for consumer in self.consumers
        ]
        self._sweeping = [
            asyncio.create_task(self._keep("sweep", self.sweeping.sweep, every=self.sweep_every)),
            asyncio.create_task(self._keep("full_pass", self.sweeping.full_pass, every=FULL_PASS_EVERY)),
            asyncio.create_task(self._keep_purging()),
            asyncio.create_task(self._keep_up()),
        ]
        log.info("worker_started", worker=self.name, lanes=[consumer.lane for consumer in self.consumers])

    async def stop(self) -> None:
        """Stop claiming, let handlers finish within the grace period, release the jobs of the others.

        Heartbeats go on until all handlers have ended.
        """
        log.info("worker_stopping")
        await asyncio.gather(*(consumer.stop() for consumer in self.consumers))
        await _end(self._sweeping)
        await asyncio.gather(*self._consuming)
        await asyncio.gather(*(consumer.drain(at_most=self.grace) for consumer in self.consumers))
        self.heart.interrupt_all(Interruption.STOPPING)
        await asyncio.gather(*(consumer.drain() for consumer in self.consumers))
        await self.heart.stop()
        log.info("worker_stopped")

    async def _consume(self, consumer: Consumer) -> None:
        try:
            await consumer.run()
        except SilentQueueError as error:
            self.failure = str(error)
            log.error("worker_gave_up", lane=consumer.lane, reason=self.failure)  # noqa: TRY400 - no bug to trace
            self.terminate()

    async def _keep(self, name: str, turn: Callable[[], Awaitable[object]], *, every: timedelta) -> None:
        await run_periodically(
            name, turn, every=every, deadline=max(every, timedelta(seconds=60)), metrics=self.metrics
        )

    async def _keep_purging(self) -> None:
        await run_periodically(
            "purge",
            self.purging.purge,
            every=self.purge_every,
            deadline=max(self.purge_every, timedelta(minutes=10)),
            metrics=self.metrics,
            after=random.random() * min(self.purge_every, PURGE_AFTER),  # noqa: S311 - nothing secret hangs on it
            # A worker that can't purge can still do jobs.
            vital=False,
        )

    async def _keep_up(self) -> None:
        await run_periodically(
            "upkeep",
            self.upkeep.keep_up,
            every=UPKEEP_EVERY,
            deadline=UPKEEP_EVERY,
            metrics=self.metrics,
            after=random.random() * UPKEEP_AFTER,  # noqa: S311 - nothing secret hangs on it
            vital=False,
        )


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
