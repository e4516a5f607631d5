"""Background loops: each call has a deadline, an error costs one turn, and the time since the last success is told."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from app.telemetry import Metrics

log = structlog.get_logger()


async def keep_going(
    name: str,
    turn: Callable[[], Awaitable[object]],
    *,
    every: timedelta,
    deadline: timedelta,
    metrics: Metrics,
    after: timedelta = timedelta(),
    vital: bool = True,
) -> None:
    """Run `turn` again and again until cancelled, for the first time `after` a while.

    A process is not ready while a vital one has not succeeded for long.
    """
    # Three turns may fail, each as slowly as it is let.
    metrics.loop_started(name, silent_after=3 * (every + deadline).total_seconds() if vital else math.inf)
    await asyncio.sleep(after.total_seconds())
    while True:
        try:
            async with asyncio.timeout(deadline.total_seconds()):
                await turn()
        except Exception as error:  # a loop that dies takes recovery with it: log, and try again
            log.warning("loop_failed", loop=name, exc_info=error)
        else:
            metrics.loop_succeeded(name)
        await asyncio.sleep(every.total_seconds())
