"""The wait that a server asks for: in seconds, as a date, in milliseconds, or in words."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

LONGEST = timedelta(minutes=10)
"""A server that asks for a day is still asked six times an hour, because limits are also lifted by hand."""

_SECONDS = {"ms": 0.001, "milliseconds": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SPAN = r"(?:\d{1,9}(?:\.\d{1,9})?\s?(?:ms|milliseconds|h|m|s)[a-z]*\s?)+"
_IN_WORDS = re.compile(rf"(?:try again|retry|wait)[a-z ]{{0,20}}?(?:in|after|for)?\s({_SPAN})")
_IN_A_FIELD = re.compile(r'"retry[_-]?(?:after|delay)(?P<unit>_ms)?"\s*:\s*"?(?P<number>\d{1,9}(?:\.\d{1,9})?)')
_PART = re.compile(r"(\d+(?:\.\d+)?)\s?(ms|milliseconds|h|m|s)")


def retry_after_of(headers: Mapping[str, str], body: str) -> timedelta | None:
    """The wait, 0 to LONGEST. Headers count before words. None if there is no wait, or none that makes sense."""
    seconds = _first(
        _scaled(headers.get("retry-after-ms"), 0.001),
        _scaled(headers.get("retry-after"), 1.0),
        _until(headers.get("retry-after"), headers.get("date")),
        _said(body.lower()),
    )
    return None if seconds is None else timedelta(seconds=min(max(seconds, 0.0), LONGEST.total_seconds()))


def _first(*found: float | None) -> float | None:
    return next((each for each in found if each is not None), None)


def _scaled(value: str | None, scale: float) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number * scale if math.isfinite(number) else None


def _until(value: str | None, now: str | None) -> float | None:
    """Seconds until a date, by the server's own clock. None if it does not send its time: ours may be wrong."""
    then, sent = _date(value), _date(now)
    return None if then is None or sent is None else (then - sent).total_seconds()


def _date(value: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(value or "")
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _said(body: str) -> float | None:
    if found := _IN_A_FIELD.search(body):
        return float(found["number"]) * (0.001 if found["unit"] else 1.0)
    if found := _IN_WORDS.search(body):
        return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(found[1]))
    return None
