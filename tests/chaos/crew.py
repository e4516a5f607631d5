"""Worker processes that come and go: whoever leaves, by whatever death, is replaced."""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.chronicle import Chronicle
from tests.support.folders import ROOT

BUSY_WITHIN = 1.0
"""Seconds for which a victim that runs a job is looked for."""

LONGEST_EXIT = 60
"""Seconds from SIGTERM to the end of a worker on a busy machine, its grace included."""


@dataclass(kw_only=True, eq=False)
class Hand:
    """One worker process."""

    pid: int
    executions: Path
    suspended: float = 0
    """Seconds that its clock does not know of."""
    status: "asyncio.Future[int]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """The exit status, once it has ended."""

    @property
    def is_up(self) -> bool:
        return (self.executions / f"{self.pid}.up").exists()

    @property
    def running(self) -> int:
        """Jobs, by its log of executions."""
        lines = (self.executions / f"{self.pid}.jsonl").read_bytes().splitlines()
        return 2 * sum(b'"event": "start"' in line for line in lines) - len(lines)

    def signal(self, number: signal.Signals) -> None:
        # Once it is reaped, its number may be somebody else's.
        if not self.status.done():
            os.kill(self.pid, number)

    async def exited(self) -> int:
        async with asyncio.timeout(LONGEST_EXIT):
            return await asyncio.shield(self.status)


class Nursery:
    """Where workers of one environment come from; see the program of that name."""

    def __init__(self, process: asyncio.subprocess.Process, *, executions: Path) -> None:
        self._process = process
        self._executions = executions
        self._asked: deque[asyncio.Future[Hand]] = deque()
        self._living: dict[int, Hand] = {}

    async def hire(self) -> Hand:
        assert self._process.stdin is not None
        asked: asyncio.Future[Hand] = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        self._process.stdin.write(b"\n")
        return await asked

    async def listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            pid, *status = map(int, line.split())
            if status:
                self._living.pop(pid).status.set_result(status[0])
            else:
                self._living[pid] = Hand(pid=pid, executions=self._executions)
                asked = self._asked.popleft()
                # Whoever asked may have been cancelled meanwhile; then it ends with the nursery.
                if not asked.done():
                    asked.set_result(self._living[pid])
        for asked in self._asked:
            asked.set_exception(RuntimeError("the nursery has ended: its error is above"))


@asynccontextmanager
async def nursery(env: Mapping[str, str], *, executions: Path) -> AsyncIterator[Nursery]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos.nursery"),
        cwd=ROOT,
        env={**env, "EXECUTIONS": str(executions)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    opened = Nursery(process, executions=executions)
    listening = asyncio.create_task(opened.listen())
    try:
        yield opened
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await listening


class Crew:
    def __init__(self, nurseries: Sequence[Nursery], *, size: int, chronicle: Chronicle, dice: random.Random) -> None:
        """Each new worker is of one of the nurseries, by chance."""
        self._nurseries = nurseries
        self._size = size
        self._chronicle = chronicle
        self._dice = dice
        self._hands: list[Hand] = []
        self._picking = asyncio.Lock()
        self._away: set[Hand] = set()
        """Stopped, killed or told to leave: harmed already."""
        self.deaths: list[int] = []
        """Exit statuses of those that died by themselves."""
        self.stillborn = 0
        """Those that never came up: SQS is looked for at the start, and may be away just then."""

    @property
    def hands(self) -> list[Hand]:
        return list(self._hands)

    async def hire(self) -> Hand:
        hand = await self._dice.choice(self._nurseries).hire()
        self._hands.append(hand)
        return hand

    async def until_up(self, *, seconds: float = 120) -> None:
        async with asyncio.timeout(seconds):
            while sum(hand.is_up for hand in self._hands) < self._size:
                await asyncio.sleep(0.05)

    async def pick(self, dice: random.Random, *, at_least: int = 1) -> Hand:
        """One that is up, as soon as most are; rather one that runs so many jobs, if there is one soon."""
        async with self._picking:
            patient_until = time.monotonic() + BUSY_WITHIN
            while True:
                present = [hand for hand in self._hands if hand.is_up and hand not in self._away]
                # On a slow machine newcomers would be killed as they come, and nobody left to work.
                most = len(present) > self._size / 2
                busy = [hand for hand in present if hand.running >= at_least]
                if most and (busy or time.monotonic() > patient_until):
                    break
                await asyncio.sleep(0.02)
            hand = dice.choice(busy or present)
            self._away.add(hand)
            return hand

    async def kill(self, hand: Hand) -> None:
        with self._chronicle.harm("workers killed", pid=hand.pid):
            hand.signal(signal.SIGKILL)
            await hand.exited()
        await self._replace(hand)

    async def stall(self, hand: Hand, *, seconds: float) -> None:
        """It stands still, and then goes on."""
        with self._chronicle.harm("workers stalled beyond their lease", pid=hand.pid):
            hand.signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(seconds)
            finally:
                hand.signal(signal.SIGCONT)
        self._away.discard(hand)

    async def suspend(self, hand: Hand, *, seconds: float) -> None:
        """Its clock stands still with it: it goes on as if nothing had been, and the fence alone can tell."""
        with self._chronicle.harm("workers suspended beyond their lease", pid=hand.pid):
            hand.signal(signal.SIGSTOP)
            stopped_at = time.monotonic()
            try:
                await asyncio.sleep(seconds)
            finally:
                hand.suspended += time.monotonic() - stopped_at
                (hand.executions / f"{hand.pid}.suspended").write_text(str(hand.suspended))
                hand.signal(signal.SIGCONT)
        self._away.discard(hand)

    async def drain(self, hand: Hand) -> int:
        """Told to stop, and replaced at once; returns the exit status."""
        self._chronicle.counts["workers drained"] += 1
        hand.signal(signal.SIGTERM)
        await self._replace(hand)
        return await hand.exited()

    async def keep_full(self) -> None:
        """Replace those that die by themselves, until cancelled."""
        while True:
            for hand in [hand for hand in self._hands if hand not in self._away and hand.status.done()]:
                if hand.is_up:
                    with self._chronicle.harm("workers dead by their job", pid=hand.pid):
                        self.deaths.append(hand.status.result())
                else:
                    self._chronicle.counts["workers that could not start"] += 1
                    self.stillborn += 1
                await self._replace(hand)
            await asyncio.sleep(0.2)

    async def dismiss(self) -> None:
        for hand in self._hands:
            hand.signal(signal.SIGTERM)
        await asyncio.gather(*(hand.exited() for hand in self._hands))

    async def _replace(self, hand: Hand) -> None:
        self._hands.remove(hand)
        await self.hire()


@asynccontextmanager
async def crew(
    environments: Sequence[Mapping[str, str]], *, size: int, executions: Path, chronicle: Chronicle, dice: random.Random
) -> AsyncIterator[Crew]:
    """All up; at the end they are told to stop, and do."""
    async with AsyncExitStack() as stack:
        nurseries = [await stack.enter_async_context(nursery(env, executions=executions)) for env in environments]
        hired = Crew(nurseries, size=size, chronicle=chronicle, dice=dice)
        for _ in range(size):
            await hired.hire()
        keeping = asyncio.create_task(hired.keep_full())
        try:
            await hired.until_up()
            yield hired
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping
            await hired.dismiss()
