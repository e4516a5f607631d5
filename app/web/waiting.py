"""The header `Prefer: wait=N` (RFC 7240), by which a client waits for jobs, and work that ends with its client."""

import asyncio
import re
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from app.web.loop_accounts import metered

LONGEST_WAIT = 60
"""Seconds. A longer wait is cut to this."""

LONGEST_HEADER = 1_000
"""Characters. No client needs more preferences, and parsing them costs more than one pass."""

# A preference with its parameters; commas and semicolons in quotes separate nothing.
_PREFERENCE = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*")+')
_WAIT = re.compile(r'wait\s*=\s*(?:(\d{1,18})|"(\d{1,18})")\s*(?:;.*)?', re.IGNORECASE | re.ASCII)
_NAMED_WAIT = re.compile(r"wait\s*(?:[=;]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WaitPreference:
    """The granted wait; None if none was asked for or the header is malformed."""

    seconds: int | None

    @property
    def wait(self) -> timedelta:
        return timedelta(seconds=self.seconds or 0)

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.seconds is None else {"Preference-Applied": f"wait={self.seconds}"}


def wait_preference(request: Request) -> WaitPreference:
    return parse_wait(", ".join(request.headers.getlist("prefer")))


def parse_wait(header: str) -> WaitPreference:
    if len(header) > LONGEST_HEADER:
        return WaitPreference(None)
    preferences = (each.strip() for each in _PREFERENCE.findall(header))
    # The first of several counts, even if it is malformed.
    first = next((each for each in preferences if _NAMED_WAIT.match(each)), "")
    asked = _WAIT.fullmatch(first)
    return WaitPreference(None if asked is None else min(int(asked[1] or asked[2]), LONGEST_WAIT))


ResultT = TypeVar("ResultT")


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Return the work's result. If the client leaves, cancel the work, await its end and raise ClientDisconnect.

    Use it only for requests without a body, or whose body was read.
    """
    doing = asyncio.create_task(metered(work))
    watching = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait((doing, watching), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientDisconnect
        return doing.result()
    finally:
        for task in (doing, watching):
            task.cancel()
        await asyncio.gather(doing, watching, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
