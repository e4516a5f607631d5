"""Gates: while a dependency of a lane is out of order, its worker claims none of the lane's jobs, and none pays for it.

A probe decides, so that a document that always fails can't blame the installation for it.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from app.domain.doorbells import Lane
from app.telemetry import Metrics, RepeatedEvents

log = structlog.get_logger()

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two probes of a closed gate; doubled each time. Jobs go on that soon after the repair."""

PATIENCE = 30.0
"""Seconds for a probe; a model that has to be loaded first needs most of it."""

WAIT, LONG_WAIT = timedelta(seconds=5), timedelta(minutes=1)

Probe = Callable[[], Awaitable[object]]
"""Uses a dependency as a job does. It raises where the dependency fails; the error is for the operator."""


class Gate:
    """One dependency. It closes when its probe fails, and opens when a later probe succeeds."""

    def __init__(self, name: str, probe: Probe, *, metrics: Metrics, stops: bool = True) -> None:
        """`stops`: no job is claimed while it is closed. Otherwise only jobs that fail are put back, for longer."""
        self.name = name
        self.stops = stops
        self.wait = WAIT if stops else LONG_WAIT
        """The time after which a job that was put back is tried again, here or by another worker."""
        self.reason: str | None = None
        """The fault, for the operator; None while the gate is open."""
        self._probe = probe
        self._probing: asyncio.Task[str | None] | None = None
        self._reopening: asyncio.Task[None] | None = None
        metrics.gate_closed.labels(name).set_function(lambda: self.reason is not None)

    async def blocks(self) -> bool:
        """Probe the dependency, unless the gate is closed already. Return True if it is out of order."""
        if self.reason is not None:
            return True
        # Many jobs fail at once when a dependency does: they share one probe.
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._fault(), name=f"probe {self.name}")
        fault = await asyncio.shield(self._probing)
        if fault is not None and self.reason is None:
            self.shut(fault)
        return fault is not None

    def shut(self, fault: str) -> None:
        self.reason = fault
        log.error("gate_closed", gate=self.name, reason=fault)
        self._reopening = asyncio.create_task(self._reopen(), name=f"gate {self.name}")

    async def end(self) -> None:
        tasks = [task for task in (self._probing, self._reopening) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _reopen(self) -> None:
        closed_at = time.monotonic()
        repeated = RepeatedEvents()
        repeated.due("gate_closed")  # logged when it was shut
        pause = FIRST_PAUSE
        while True:
            # Many workers probe the same dependency: not all at the same moment.
            await asyncio.sleep(pause * (0.5 + random.random() / 2))  # noqa: S311 - spreads, guards nothing
            pause = min(2 * pause, LONGEST_PAUSE)
            fault = await self._fault()
            if fault is None:
                break
            self.reason = fault
            if repeated.due("gate_closed"):
                log.error("gate_closed", gate=self.name, reason=fault, seconds=round(time.monotonic() - closed_at))
        self.reason = None
        log.warning("gate_opened", gate=self.name, seconds=round(time.monotonic() - closed_at))

    async def _fault(self) -> str | None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._probe()
        except TimeoutError:
            return f"no answer within {PATIENCE:g} s"
        except Exception as error:  # noqa: BLE001 - whatever a job would meet as well
            return _in_a_line(error)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """The gates of a worker, by the lane whose jobs need them."""

    of_lane: Mapping[Lane, Sequence[Gate]] = field(default_factory=dict)

    def is_closed(self, lane: Lane) -> bool:
        """Return True while no job of this lane is to be claimed."""
        return any(gate.stops and gate.reason is not None for gate in self.of_lane.get(lane, ()))

    async def excuse(self, lane: Lane) -> timedelta | None:
        """Probe all that the lane depends on. Return the time to wait for it; None if all of it is in order."""
        gates = self.of_lane.get(lane, ())
        blocked = await asyncio.gather(*(gate.blocks() for gate in gates))
        return max((gate.wait for gate, closed in zip(gates, blocked, strict=True) if closed), default=None)

    def shut(self, name: str, fault: str) -> None:
        """Close the gate of this name, if there is one, before any job has met the fault."""
        for gate in {gate for gates in self.of_lane.values() for gate in gates if gate.name == name}:
            gate.shut(fault)

    @property
    def faults(self) -> dict[str, str]:
        """The reasons of the closed gates, by their names."""
        return {gate.name: gate.reason for gates in self.of_lane.values() for gate in gates if gate.reason is not None}

    async def end(self) -> None:
        """End all probes."""
        await asyncio.gather(*(gate.end() for gates in self.of_lane.values() for gate in gates))


def _in_a_line(error: Exception) -> str:
    """Return the error's text. Of several lines, such as a program printed them, the first and the last say most."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0] if len(lines) == 1 else f"{lines[0]} … {lines[-1].strip()}"
