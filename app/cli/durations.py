"""Spans of time as they are written on a command line, for example 90d, 24h or 0."""

import re
from datetime import timedelta

from app.domain.errors import Invalid

PATTERN = re.compile(r"(\d{1,6})([smhdw]?)", re.ASCII)
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(text: str) -> timedelta:
    """Raises Invalid for anything else, and for a bare number that is not 0, as it could be of anything."""
    found = PATTERN.fullmatch(text)
    if not found or (not found[2] and int(found[1])):
        raise Invalid(f"{text!r} is no span of time: write it as 90d, 24h, 15m or 30s")
    return timedelta(**{UNITS[found[2] or "s"]: int(found[1])})
