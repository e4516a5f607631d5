"""Private copies of documents for readers, which get a path and no access to the store.

What a killed process left is removed by the next that starts here.
"""

import fcntl
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

PREFIX = "daira-copy-"

PROBE_BYTES = 4 << 20
"""More than most documents have."""


@asynccontextmanager
async def local_copy(chunks: AsyncIterator[bytes]) -> AsyncIterator[Path]:
    """For the owner's eyes alone, and gone with the context."""
    with tempfile.NamedTemporaryFile(prefix=f"{PREFIX}{os.getpid()}-") as copy:
        with suppress(OSError):  # a file system without locks: then the process's number alone protects the copy
            fcntl.flock(copy, fcntl.LOCK_SH | fcntl.LOCK_NB)
        async for chunk in chunks:
            copy.write(chunk)
        copy.flush()
        yield Path(copy.name)


def probe() -> None:
    """Write a file as large as a document. Raises OSError, with the folder, where that is not possible."""
    try:
        with tempfile.TemporaryFile(prefix=f"{PREFIX}{os.getpid()}-") as copy:
            copy.write(bytes(PROBE_BYTES))
            copy.flush()
    except OSError as error:
        raise OSError(f"no copy of a document can be made in {_folder()} (TMPDIR): {error.strerror or error}") from None


def _folder() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return "any of the usual folders"


def remove_abandoned() -> None:
    """Remove copies whose process is gone, or had this one's number before it."""
    with suppress(FileNotFoundError):  # without a usable folder there is none to clear: the first job will say so
        _remove_abandoned(Path(tempfile.gettempdir()))


def _remove_abandoned(folder: Path) -> None:
    for path in folder.glob(f"{PREFIX}*-*"):
        owner = path.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and (int(owner) == os.getpid() or not _lives(int(owner))):
            with suppress(OSError), path.open("rb") as copy:
                # A process of another container has the lock, though its number means nothing here.
                fcntl.flock(copy, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
