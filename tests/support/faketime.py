"""A wall clock that is wrong for one process, by Debian's package libfaketime. Its monotonic one is left alone."""

from pathlib import Path


def library() -> Path:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        raise RuntimeError("clocks can't be moved without libfaketime; on Debian: apt-get install libfaketime")
    return found[0]


def wrong_clock(offset: str) -> dict[str, str]:
    """The environment of a process whose clock is off by `+40d`, `-5m` or the like.

    The times of files stay as they are: those of a server, with a clock of its own.
    """
    return {
        "LD_PRELOAD": str(library()),
        "FAKETIME": offset,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
