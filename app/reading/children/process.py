"""The parent's side of one child process: it sends requests, receives answers and kills the child."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

from app.reading.children import wire

READER = "app.reading.children.child"
"""The module of the program that reads and renders documents."""

_ROOT = Path(__file__).resolve().parents[3]
"""The folder that holds the package `app`."""
_READY_WITHIN = timedelta(seconds=60)
"""Starting takes 0.3 s. A start beyond this limit means a broken installation, not a busy machine."""
_STDERR_TAIL = 4096
_Stream = TypeVar("_Stream", asyncio.StreamReader, asyncio.StreamWriter)


class ChildDied(Exception):
    """The process ended before it answered. `how` names the signal or the exit status."""

    def __init__(self, how: str, *, was_fresh: bool) -> None:
        super().__init__(f"The reader died ({how})")
        self.how = how
        self.was_fresh = was_fresh
        """True if the child had read no other file."""


class ChildFailed(RuntimeError):
    """The child reported an unforeseen error and is still alive."""


class ChildProcess:
    """Runs one child process and talks to it over pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._stderr = bytearray()
        self._draining = asyncio.create_task(self._drain())
        self.is_busy = False
        self.files = 0
        """The number of files opened so far."""

    @classmethod
    async def spawn(cls, setup: Mapping[str, Any], *, program: str = READER) -> Self:
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                # Without -P modules in the working directory could shadow ours.
                "-P",
                "-m",
                program,
                json.dumps({**setup, "parent": os.getpid()}),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=_environment(),
                cwd="/",
                start_new_session=True,
            )
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def ready(self) -> None:
        """Wait until the child can work. Raises RuntimeError if it can't be started; it is dead then."""
        try:
            async with asyncio.timeout(_READY_WITHIN.total_seconds()):
                await wire.receive(_pipe(self._process.stdout))
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ValueError) as error:
            self.kill()
            await self.ended()
            # The child has not read a document yet, so its output is safe to show.
            printed = self._stderr.decode(errors="replace").strip()
            raise RuntimeError(f"No reader could be started ({self._how()}): {printed}") from error
        except BaseException:
            self.kill()
            raise

    async def ask(
        self, request: wire.Message, *, within: timedelta, take: Callable[[bytes], object] | None = None
    ) -> wire.Message:
        """Return the child's answer. Raises ChildDied, ChildFailed, TimeoutError; without an answer the child is dead.

        `take` gets the bytes that come before the answer, chunk by chunk. An exception from it kills the child, too.
        """
        self.is_busy = True
        try:
            async with asyncio.timeout(within.total_seconds()):
                answer = await self._exchange(request, take)
        except BaseException:
            self.kill()
            raise
        self.is_busy = False
        if "error" in answer:
            raise ChildFailed(answer["error"])
        return answer

    def kill(self) -> None:
        """Kill the child at once, with any process that it started; `ended` waits for its end."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def ended(self) -> None:
        await self._process.wait()
        await self._draining

    async def _exchange(self, request: wire.Message, take: Callable[[bytes], object] | None) -> wire.Message:
        try:
            stdin, stdout = _pipe(self._process.stdin), _pipe(self._process.stdout)
            stdin.write(wire.frame(request))
            await stdin.drain()
            answer = await wire.receive(stdout)
            while take and wire.BYTES in answer:
                take(await wire.receive_bytes(stdout, answer))
                answer = await wire.receive(stdout)
            return answer
        except (asyncio.IncompleteReadError, ConnectionError, ValueError, TypeError) as error:
            self.kill()
            await self._process.wait()
            raise ChildDied(self._how(), was_fresh=self.files <= 1) from error

    async def _drain(self) -> None:
        stderr = _pipe(self._process.stderr)
        while chunk := await stderr.read(_STDERR_TAIL):
            self._stderr += chunk
            del self._stderr[:-_STDERR_TAIL]

    def _how(self) -> str:
        code = self._process.returncode or 0
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _pipe(stream: _Stream | None) -> _Stream:
    assert stream is not None, "all three are pipes"
    return stream


def _environment() -> dict[str, str]:
    """The child's environment, without the parent's: a process that reads a stranger's bytes gets no secrets."""
    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(_ROOT),
        # One core for each child: more threads triple a page's CPU time and need memory for their stacks.
        "OMP_THREAD_LIMIT": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
