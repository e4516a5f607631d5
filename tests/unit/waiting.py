"""Waiting for a condition, with a deadline: no test sleeps and hopes."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

PATIENCE = 10.0
"""Seconds: far beyond what anything here takes, even on a busy machine."""


async def until(condition: Callable[[], bool | Awaitable[bool]], *, within: float = PATIENCE) -> None:
    deadline = time.monotonic() + within
    while not await _holds(condition):
        assert time.monotonic() < deadline, f"not within {within} s: {inspect.getsource(condition).strip()}"
        await asyncio.sleep(0.002)


async def settled(turns: int = 50) -> None:
    """Let every task that can go on do so: what has not happened then is waiting for something."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def _holds(condition: Callable[[], bool | Awaitable[bool]]) -> bool:
    found = condition()
    return found if isinstance(found, bool) else await found
