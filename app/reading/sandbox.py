"""Limits on a child's memory, CPU and files; it also gives up the network if the system allows that."""

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
    """Bind this process to its parent's life and to its limits. This can't be undone."""
    if sys.platform == "linux":
        _die_with(parent)
    _limit(resource.RLIMIT_CORE, 0)
    # A child reads one file and writes only to pipes.
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _limit(resource.RLIMIT_AS, memory_bytes)


def allow_cpu(seconds: float) -> None:
    """Allow this many more CPU seconds, then SIGXCPU. The limit acts if the parent's timeout fails."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


class CpuTimeLimit:
    """Limits the CPU seconds that a library may use for one request; then SIGPROF ends the process.

    It guards a library that may loop and can't be stopped. A limit on elapsed time would have to be generous, because
    the machine may be busy.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    @contextmanager
    def counting(self) -> Iterator[None]:
        signal.setitimer(signal.ITIMER_PROF, self._seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the count within this context: CPU time used meanwhile is not counted."""
        left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, left)


def _die_with(parent: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have died before the line above: no signal would ever come then.
    if os.getppid() != parent:
        os._exit(0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # Only root may do this. Otherwise the container's network policy has to suffice.
    libc.unshare(_CLONE_NEWNET)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (wanted, wanted))
    except (ValueError, OSError):
        # macOS defines RLIMIT_AS but refuses to set it.
        if sys.platform == "linux":
            raise
