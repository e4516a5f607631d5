"""Four locks tell who is there. The kernel drops them on any death, kill -9 included, so none can be stale.

start   whoever is starting or stopping the server, one at a time
users   shared by every process that uses the server
keeper  the keeper alone
server  handed down to initdb, and from the keeper to all that runs below it: free means nothing of them is left

They are flock(2) locks on a local file system; a home on NFS is not supported.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from app.embedded.files import open_private

POLL = timedelta(milliseconds=20)


@dataclass(frozen=True, slots=True)
class FileLock:
    path: Path

    def take(self, *, shared: bool = False) -> int:
        """Wait for it; held until the descriptor is closed here and in every process that inherited it."""
        fd = open_private(self.path)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def try_take(self) -> int | None:
        fd = open_private(self.path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    @contextmanager
    def held(self) -> Iterator[int]:
        fd = self.take()
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def tried(self) -> Iterator[bool]:
        fd = self.try_take()
        try:
            yield fd is not None
        finally:
            if fd is not None:
                os.close(fd)

    def is_free(self) -> bool:
        with self.tried() as taken:
            return taken

    def is_free_within(self, patience: timedelta) -> bool:
        deadline = time.monotonic() + patience.total_seconds()
        while not (free := self.is_free()) and time.monotonic() < deadline:
            time.sleep(POLL.total_seconds())
        return free


class ClusterLocks:
    def __init__(self, directory: Path) -> None:
        self.start = FileLock(directory / "start.lock")
        self.users = FileLock(directory / "users.lock")
        self.keeper = FileLock(directory / "keeper.lock")
        self.server = FileLock(directory / "server.lock")

    @contextmanager
    def nobody_left(self) -> Iterator[bool]:
        """True: no user is there, and none can come before this is left. The order is that of a starting user."""
        with self.start.tried() as closed:
            if not closed:
                yield False
                return
            with self.users.tried() as unused:
                yield unused
