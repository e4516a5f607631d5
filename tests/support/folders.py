"""The project's folder, and folders for servers that run as another account."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""Of the project."""

MEMORY = Path("/dev/shm")  # noqa: S108 - folders are made below it under names of their own
ROOM = 4 * 2**30
"""Bytes that must be free there: all that the tests of some processes write, and Postgres' log of what it wrote."""


@cache
def quickest() -> Path:
    """A file system in memory, if there is one: a database is 400 files, and to make them on a disk takes 0.2 s."""
    if not os.access(MEMORY, os.W_OK | os.X_OK):
        return Path(tempfile.gettempdir())
    told = os.statvfs(MEMORY)
    # The server's programs are copied to its folder where its account can't reach ours.
    fits = told.f_bavail * told.f_frsize >= ROOM and not told.f_flag & os.ST_NOEXEC
    return MEMORY if fits else Path(tempfile.gettempdir())


@contextmanager
def open_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="daira-test-", dir=quickest()))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
