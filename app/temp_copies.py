"""Private copies of documents for readers, which get a path and no access to the store.

What a killed process left is removed by the next that starts here.
"""

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

PREFIX = "daira-copy-"


@asynccontextmanager
async def local_copy(chunks: AsyncIterator[bytes]) -> AsyncIterator[Path]:
    """For the owner's eyes alone, and gone with the context."""
    with tempfile.NamedTemporaryFile(prefix=f"{PREFIX}{os.getpid()}-") as copy:
        async for chunk in chunks:
            copy.write(chunk)
        copy.flush()
        yield Path(copy.name)


def remove_abandoned() -> None:
    """Copies whose process is gone, or had this one's number before it."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = path.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and (int(owner) == os.getpid() or not _lives(int(owner))):
            with suppress(OSError):
                path.unlink()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
