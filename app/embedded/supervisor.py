"""The postmaster's parent: stops it when nobody uses it any more, however the last user died.

Its standard output and error are the log.

`python -m app.embedded.supervisor BASE GRACE_SECONDS UID GID POSTGRES_COMMAND...`
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from app.embedded.account import ServiceAccount, environment
from app.embedded.files import open_private
from app.embedded.locks import ClusterLocks

TICK_S = 0.25
LOG_LIMIT = 4_000_000
"""Bytes of the log before it is put aside; one older log is kept."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Fast shutdown, immediate shutdown (the next start recovers), and the end.
_STOPS = ((signal.SIGINT, 30), (signal.SIGQUIT, 10), (signal.SIGKILL, 10))


def main(arguments: Sequence[str]) -> int:
    base, grace, uid, gid, *command = arguments
    locks = ClusterLocks(Path(base))
    server = locks.server.try_take()
    keeper = locks.keeper.try_take()
    if server is None or keeper is None:
        sys.stderr.write("keeper: there is another one\n")
        return 1
    # The starter waits for the first process only: the second is nobody's child to reap, and keeps the locks.
    if os.fork():
        return 0
    os.ftruncate(keeper, 0)
    os.write(keeper, f"{os.getpid()}\n".encode())
    postmaster = _serve(command, account=ServiceAccount(uid=int(uid), gid=int(gid)), server=server)
    _keep(postmaster, locks=locks, grace=float(grace), older_log=Path(base, "postgres.log.1"))
    return 0


def _serve(command: Sequence[str], *, account: ServiceAccount, server: int) -> subprocess.Popen[bytes]:
    postmaster = subprocess.Popen(  # noqa: S603 - the command comes from the starter
        command,
        cwd="/",
        env=environment(),
        stdin=subprocess.DEVNULL,
        pass_fds=(server,),
        user=account.uid if account.dropped else None,
        group=account.gid if account.dropped else None,
        extra_groups=[] if account.dropped else None,
        preexec_fn=_die_with_the_keeper(),  # noqa: PLW1509 - this process has one thread
    )
    for asked in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(asked, lambda *_: postmaster.send_signal(signal.SIGINT))
    return postmaster


def _die_with_the_keeper() -> Callable[[], None] | None:
    """Linux only; elsewhere the next start finds the postmaster without a keeper, and stops it."""
    if sys.platform != "linux":
        return None
    # Loaded here: it runs after the uid is dropped, when nothing may be readable any more.
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT))


def _keep(postmaster: subprocess.Popen[bytes], *, locks: ClusterLocks, grace: float, older_log: Path) -> None:
    unused_since: float | None = None
    while postmaster.poll() is None:
        time.sleep(TICK_S)
        _bound_log(older_log)
        with locks.nobody_left() as unused:
            now = time.monotonic()
            unused_since = (now if unused_since is None else unused_since) if unused else None
            # Still under both locks: whoever comes now waits, then starts it anew.
            if unused_since is not None and now - unused_since >= grace:
                _stop(postmaster)


def _stop(postmaster: subprocess.Popen[bytes]) -> None:
    for how, patience in _STOPS:
        postmaster.send_signal(how)
        try:
            postmaster.wait(patience)
        except subprocess.TimeoutExpired:
            continue
        return


def _bound_log(older: Path) -> None:
    """All writers append, so the file can be emptied under them; a line written in between is lost."""
    log = sys.stdout.fileno()
    size = os.fstat(log).st_size
    if size > LOG_LIMIT:
        # A full disk costs the older log, not the server.
        with suppress(OSError), os.fdopen(open_private(older, flags=os.O_WRONLY | os.O_TRUNC), "wb") as copy:
            copy.write(os.pread(log, size, 0))
        os.ftruncate(log, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
