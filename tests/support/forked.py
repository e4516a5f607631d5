"""The program, forked off a process that has imported it: a start costs a tenth of a second of a core, not two seconds.

What a start itself is about (`daira up` on a terminal, signals while it is read, the first process of a container) is
tested with processes that begin with an interpreter: `tests.support.service.command`.
"""

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.support.folders import ROOT

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.support.preloaded"])
_READING = threading.Lock()


@dataclass(frozen=True)
class Forked:
    """As much of `subprocess.Popen` as tests ask of a process."""

    process: multiprocessing.process.BaseProcess
    arguments: Sequence[str]

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; what a signal ended is negative."""
        return self.process.exitcode

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired(self.arguments, timeout or 0)
        return self.process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        # Once it is reaped, its number may be somebody else's.
        if self.process.exitcode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    cwd: Path
    env: Mapping[str, str]
    stdout: Path | None = None
    """Where it is written to, at the end of what is there; None is where this process writes."""
    stderr: Path | None = None


def program(*arguments: str, **surroundings: Any) -> Forked:
    """`daira` with these arguments."""
    return fork(_daira, arguments, Surroundings(**surroundings))


def fork(target: Callable[[Sequence[str]], object], arguments: Sequence[str], surroundings: Surroundings) -> Forked:
    ready_to_fork()
    # A test that fails without having stopped it leaves nothing behind: it ends with this process.
    process = CONTEXT.Process(target=_run, args=(target, arguments, surroundings), daemon=True)
    process.start()
    return Forked(process, arguments)


def ready_to_fork() -> None:
    """Takes seconds, once: not to be spent on a loop on which a statement waits for its end."""
    with _READING:
        _read()


@cache
def _read() -> None:
    first = CONTEXT.Process(target=os.getpid)
    # The process that is forked from is told of no path but this.
    with patch.dict(os.environ, PYTHONPATH=str(ROOT)):
        first.start()
    first.join()
    first.close()


def _run(target: Callable[[Sequence[str]], object], arguments: Sequence[str], surroundings: Surroundings) -> None:
    os.environ.clear()
    os.environ.update(surroundings.env)
    os.chdir(surroundings.cwd)
    # An interpreter that was started with -P does not have it either.
    sys.path[:] = [path for path in sys.path if path]
    for number, path in ((1, surroundings.stdout), (2, surroundings.stderr)):
        if path:
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    try:
        target(arguments)
    finally:
        # A forked process leaves them out.
        atexit._run_exitfuncs()


def _daira(arguments: Sequence[str]) -> None:
    from app.__main__ import main

    sys.argv = ["daira", *arguments]
    main()
