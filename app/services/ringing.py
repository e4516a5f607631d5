"""Rings doorbells after the commit.

A ring may fail, because the sweeper rings again for every row; it must not hold up the request.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from app.domain.doorbells import LANE_OF_KIND, Lane, Ring
from app.ports.doorbell import Doorbell
from app.telemetry import Metrics, RepeatedEvents

log = structlog.get_logger()

PATIENCE = timedelta(milliseconds=500)
"""The longest that a request waits for the queue."""

AT_ONCE = 500
"""Rings in one call, which share that time; a sweep has thousands."""


@dataclass(frozen=True, slots=True)
class Ringer:
    doorbells: Mapping[Lane, Doorbell]
    metrics: Metrics
    _repeated: RepeatedEvents = field(default_factory=RepeatedEvents)

    async def ring(self, bells: Iterable[tuple[str, Ring]], *, delay: timedelta = timedelta()) -> None:
        """Ring each (kind, ring) on its lane. Kinds unknown to this version are left to a version that knows them."""
        by_lane: dict[Lane, list[Ring]] = defaultdict(list)
        for kind, ring in bells:
            if kind in LANE_OF_KIND:
                by_lane[LANE_OF_KIND[kind]].append(ring)
        for lane, rings in by_lane.items():
            for start in range(0, len(rings), AT_ONCE):
                await self._ring(lane, rings[start : start + AT_ONCE], delay=delay)

    async def _ring(self, lane: Lane, rings: list[Ring], *, delay: timedelta) -> None:
        try:
            async with asyncio.timeout(PATIENCE.total_seconds()):
                await self.doorbells[lane].ring(rings, delay=delay)
        except Exception as error:  # noqa: BLE001 - the row is committed, so the sweeper rings again
            self.metrics.doorbells.labels("failed").inc(len(rings))
            reason = str(error) or type(error).__name__
            if self._repeated.due(lane):
                log.warning("ring_failed", lane=lane, count=len(rings), reason=reason)
        else:
            self.metrics.doorbells.labels("rung").inc(len(rings))
