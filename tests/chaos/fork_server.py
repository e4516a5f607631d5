"""Brings up worker processes by forking one that has everything imported: a start costs 0.1 s of a core, not 2.

`python -m tests.chaos.fork_server`: each line on its standard input asks for one more worker. Each line that it writes
is the pid of a new one, or a pid and the exit status with which it ended. When the input ends, so do they all.
"""

import os
import signal
import sys
import traceback

import uvloop

from tests.chaos.worker import main as work

CHILD = {signal.SIGCHLD}


def main() -> None:
    living: set[int] = set()

    def reap(*_: object) -> None:
        for pid in list(living):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                living.discard(pid)
                tell(f"{pid} {os.waitstatus_to_exitcode(status)}")

    signal.signal(signal.SIGCHLD, reap)
    for _ in sys.stdin:
        # Its end may not be told before its beginning.
        signal.pthread_sigmask(signal.SIG_BLOCK, CHILD)
        pid = os.fork()
        if not pid:
            live()
        living.add(pid)
        tell(str(pid))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, CHILD)
    for pid in list(living):
        os.kill(pid, signal.SIGKILL)


def live() -> None:
    """In the child, to the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, CHILD)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    status = 1
    try:
        uvloop.run(work())
        status = 0
    except BaseException:  # noqa: BLE001 - nobody else would say why it ended
        traceback.print_exc()
    finally:
        os._exit(status)


def tell(line: str) -> None:
    """At once, and whole: a signal may come between any two calls."""
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main()
