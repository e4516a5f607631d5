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
class WorkerProcess:
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


class ForkServer:
    """Where workers of one environment come from; see the program of that name."""

    def __init__(self, process: asyncio.subprocess.Process, *, executions: Path) -> None:
        self._process = process
        self._executions = executions
        self._asked: deque[asyncio.Future[WorkerProcess]] = deque()
        self._living: dict[int, WorkerProcess] = {}

    async def start(self) -> WorkerProcess:
        assert self._process.stdin is not None
        asked: asyncio.Future[WorkerProcess] = asyncio.get_running_loop().create_future()
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
                self._living[pid] = WorkerProcess(pid=pid, executions=self._executions)
                asked = self._asked.popleft()
                # Whoever asked may have been cancelled meanwhile; then it ends with the fork server.
                if not asked.done():
                    asked.set_result(self._living[pid])
        for asked in self._asked:
            asked.set_exception(RuntimeError("the fork server has ended: its error is above"))


@asynccontextmanager
async def fork_server(env: Mapping[str, str], *, executions: Path) -> AsyncIterator[ForkServer]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos.fork_server"),
        cwd=ROOT,
        env={**env, "EXECUTIONS": str(executions)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    opened = ForkServer(process, executions=executions)
    listening = asyncio.create_task(opened.listen())
    try:
        yield opened
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await listening


class Supervisor:
    def __init__(
        self, fork_servers: Sequence[ForkServer], *, size: int, chronicle: Chronicle, dice: random.Random
    ) -> None:
        """Each new worker is of one of the fork servers, by chance."""
        self._fork_servers = fork_servers
        self._size = size
        self._chronicle = chronicle
        self._dice = dice
        self._processes: list[WorkerProcess] = []
        self._picking = asyncio.Lock()
        self._away: set[WorkerProcess] = set()
        """Stopped, killed or told to leave: harmed already."""
        self.deaths: list[int] = []
        """Exit statuses of those that died by themselves."""
        self.failed_starts = 0
        """Those that never came up: SQS is looked for at the start, and may be away just then."""

    @property
    def processes(self) -> list[WorkerProcess]:
        return list(self._processes)

    async def start(self) -> WorkerProcess:
        process = await self._dice.choice(self._fork_servers).start()
        self._processes.append(process)
        return process

    async def until_up(self, *, seconds: float = 120) -> None:
        async with asyncio.timeout(seconds):
            while sum(process.is_up for process in self._processes) < self._size:
                await asyncio.sleep(0.05)

    async def pick(self, dice: random.Random, *, at_least: int = 1) -> WorkerProcess:
        """One that is up, as soon as most are; rather one that runs so many jobs, if there is one soon."""
        async with self._picking:
            patient_until = time.monotonic() + BUSY_WITHIN
            while True:
                present = [process for process in self._processes if process.is_up and process not in self._away]
                # On a slow machine newcomers would be killed as they come, and nobody left to work.
                most = len(present) > self._size / 2
                busy = [process for process in present if process.running >= at_least]
                if most and (busy or time.monotonic() > patient_until):
                    break
                await asyncio.sleep(0.02)
            process = dice.choice(busy or present)
            self._away.add(process)
            return process

    async def kill(self, process: WorkerProcess) -> None:
        with self._chronicle.harm("workers killed", pid=process.pid):
            process.signal(signal.SIGKILL)
            await process.exited()
        await self._replace(process)

    async def stall(self, process: WorkerProcess, *, seconds: float) -> None:
        """It stands still, and then goes on."""
        with self._chronicle.harm("workers stalled beyond their lease", pid=process.pid):
            process.signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(seconds)
            finally:
                process.signal(signal.SIGCONT)
        self._away.discard(process)

    async def suspend(self, process: WorkerProcess, *, seconds: float) -> None:
        """Its clock stands still with it: it goes on as if nothing had been, and the fence alone can tell."""
        with self._chronicle.harm("workers suspended beyond their lease", pid=process.pid):
            process.signal(signal.SIGSTOP)
            stopped_at = time.monotonic()
            try:
                await asyncio.sleep(seconds)
            finally:
                process.suspended += time.monotonic() - stopped_at
                (process.executions / f"{process.pid}.suspended").write_text(str(process.suspended))
                process.signal(signal.SIGCONT)
        self._away.discard(process)

    async def drain(self, process: WorkerProcess) -> int:
        """Told to stop, and replaced at once; returns the exit status."""
        self._chronicle.counts["workers drained"] += 1
        process.signal(signal.SIGTERM)
        await self._replace(process)
        return await process.exited()

    async def keep_full(self) -> None:
        """Replace those that die by themselves, until cancelled."""
        while True:
            for process in [
                process for process in self._processes if process not in self._away and process.status.done()
            ]:
                if process.is_up:
                    with self._chronicle.harm("workers dead by their job", pid=process.pid):
                        self.deaths.append(process.status.result())
                else:
                    self._chronicle.counts["workers that could not start"] += 1
                    self.failed_starts += 1
                await self._replace(process)
            await asyncio.sleep(0.2)

    async def stop(self) -> None:
        for process in self._processes:
            process.signal(signal.SIGTERM)
        await asyncio.gather(*(process.exited() for process in self._processes))

    async def _replace(self, process: WorkerProcess) -> None:
        self._processes.remove(process)
        await self.start()


@asynccontextmanager
async def supervisor(
    environments: Sequence[Mapping[str, str]], *, size: int, executions: Path, chronicle: Chronicle, dice: random.Random
) -> AsyncIterator[Supervisor]:
    """All up; at the end they are told to stop, and do."""
    async with AsyncExitStack() as stack:
        fork_servers = [
            await stack.enter_async_context(fork_server(env, executions=executions)) for env in environments
        ]
        opened = Supervisor(fork_servers, size=size, chronicle=chronicle, dice=dice)
        for _ in range(size):
            await opened.start()
        keeping = asyncio.create_task(opened.keep_full())
        try:
            await opened.until_up()
            yield opened
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping
            await opened.stop()
