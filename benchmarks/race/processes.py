"""A competitor's program as a process: started, sent orders, paused, and ended by closing its standard input."""

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.race.program import Order, Setting

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
LINE = 2**26
"""Bytes of an answer: the times of very many calls are one line."""


class Broken(Exception):
    """A program failed. The message ends with its last output."""


@dataclass(frozen=True, kw_only=True)
class Running:
    process: Process
    said: IO[bytes]

    def pause(self) -> None:
        """Stop the process as a whole: its connections, tasks and timers stay."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    async def ask(self, order: Order) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        answer: dict[str, Any] = json.loads(await self.line())
        return answer

    async def line(self) -> bytes:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if not line:
            raise Broken(f"a program ended by itself: {self.last_words()}")
        return line

    def check(self) -> None:
        if self.process.returncode is not None:
            raise Broken(f"a program ended by itself: {self.last_words()}")

    def last_words(self) -> str:
        self.said.seek(0)
        return self.said.read()[-2_000:].decode(errors="replace")

    def _signal(self, sign: signal.Signals) -> None:
        # Process.send_signal would reap a process that has just ended, and its status would be lost to the loop.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, sign)

    async def end(self) -> None:
        """End the process by closing its standard input. A process that does not react is killed."""
        if self.process.returncode is None:
            assert self.process.stdin is not None
            self.go_on()
            self.process.stdin.close()
            try:
                async with asyncio.timeout(10):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
        await self.process.wait()


@dataclass(frozen=True, kw_only=True)
class Programs:
    """Runs the program of one competitor, in the environment that it needs."""

    python: Path
    script: Path

    async def describe(self) -> dict[str, Any]:
        async with self._started("describe") as program:
            described: dict[str, Any] = json.loads(await program.line())
        return described

    async def install(self, dsn: str) -> None:
        async with self._started("install", dsn) as program:
            if await program.process.wait():
                raise Broken(f"{self.script.stem} could not be installed: {program.last_words()}")

    @asynccontextmanager
    async def worker(self, dsn: str, setting: Setting, *, echo: bool = False) -> AsyncIterator[Running]:
        async with self._started("work", dsn, json.dumps(setting), echo=echo) as program:
            yield program

    @asynccontextmanager
    async def adder(self, dsn: str, *, connections: int = 1) -> AsyncIterator[Running]:
        async with self._started("add", dsn, str(connections)) as program:
            yield program

    @asynccontextmanager
    async def _started(self, *arguments: str, echo: bool = False) -> AsyncIterator[Running]:
        # None of the caller's settings reaches a program.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DAIRA_", "PG", "OBAN_"))}
        env = kept | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"} | ({"RACE_ECHO": "1"} if echo else {})
        with tempfile.TemporaryFile() as said, tempfile.TemporaryDirectory() as folder:
            # A group of its own: Ctrl-C reaches only the runner. If that is killed, the kernel wakes a paused program.
            process = await asyncio.create_subprocess_exec(
                self.python, "-P", self.script, *arguments,
                cwd=folder, env=env, stdin=PIPE, stdout=PIPE, stderr=said, limit=LINE, process_group=0,
            )  # fmt: skip
            running = Running(process=process, said=said)
            try:
                yield running
            finally:
                await running.end()
