"""The limits of a child: memory, CPU, files, and no network where the system lets it give that up."""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWNET = 0x40000000
_OPEN_FILES = 64


def enter_sandbox(*, parent: int, memory_bytes: int) -> None:
    """Bind this process to its parent's life and to its limits, for good."""
    if sys.platform == "linux":
        _die_with(parent)
    _limit(resource.RLIMIT_CORE, 0)
    # It reads one file and writes to pipes.
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _limit(resource.RLIMIT_AS, memory_bytes)


def allow_cpu(seconds: float) -> None:
    """So much more CPU time from now on, then SIGXCPU: a second fence should the parent's clock fail."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


class CpuTimeLimit:
    """CPU seconds for what runs behind it, all visits of one request together; then SIGPROF ends the process.

    For a library that may loop and can't be stopped. A clock on the wall has to be patient: the machine may be busy.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    @contextmanager
    def up(self) -> Iterator[None]:
        signal.setitimer(signal.ITIMER_PROF, self._seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    @contextmanager
    def down(self) -> Iterator[None]:
        """For a while, within: what is used meanwhile does not count."""
        left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, left)


def _die_with(parent: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have died before the line above; nobody would ever tell us.
    if os.getppid() != parent:
        os._exit(0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # Only root may: elsewhere the container's network policy has to do.
    libc.unshare(_CLONE_NEWNET)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (wanted, wanted))
    except (ValueError, OSError):
        # macOS knows RLIMIT_AS but refuses to set it.
        if sys.platform == "linux":
            raise
