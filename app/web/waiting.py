"""`Prefer: wait=N` (RFC 7240): how long a client would like an answer to wait for the end of jobs."""

import asyncio
import re
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

LONGEST_WAIT = 60
"""Seconds. A longer wish is granted in part."""

LONGEST_HEADER = 1_000
"""Nobody has so many wishes, and taking them apart costs more than one pass."""

# A preference with its parameters: quoted commas and semicolons part nothing.
_PREFERENCE = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*")+')
_WAIT = re.compile(r'wait\s*=\s*(?:(\d{1,18})|"(\d{1,18})")\s*(?:;.*)?', re.IGNORECASE | re.ASCII)
_NAMED_WAIT = re.compile(r"wait\s*(?:[=;]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Preference:
    """What was asked for and is granted; nothing, where it can't be understood."""

    seconds: int | None

    @property
    def wait(self) -> timedelta:
        return timedelta(seconds=self.seconds or 0)

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.seconds is None else {"Preference-Applied": f"wait={self.seconds}"}


def preference_of(request: Request) -> Preference:
    return preferred(", ".join(request.headers.getlist("prefer")))


def preferred(header: str) -> Preference:
    if len(header) > LONGEST_HEADER:
        return Preference(None)
    preferences = (each.strip() for each in _PREFERENCE.findall(header))
    # Of several the first counts, even where it makes no sense.
    first = next((each for each in preferences if _NAMED_WAIT.match(each)), "")
    asked = _WAIT.fullmatch(first)
    return Preference(None if asked is None else min(int(asked[1] or asked[2]), LONGEST_WAIT))


Result = TypeVar("Result")


async def unless_gone(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result. Raises ClientDisconnect once the client has gone; the work has ended by then.

    For requests without a body, or whose body was read.
    """
    doing = asyncio.create_task(work)
    watching = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait((doing, watching), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientDisconnect
        return doing.result()
    finally:
        for task in (doing, watching):
            task.cancel()
        await asyncio.gather(doing, watching, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
