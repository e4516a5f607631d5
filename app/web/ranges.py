"""One range of bytes of a document (RFC 9110, section 14). Several are answered with the whole, which may always be."""

import re
from dataclasses import dataclass

from starlette.exceptions import HTTPException

_ONE_RANGE = re.compile(r"bytes=(?P<first>\d{0,19})-(?P<last>\d{0,19})")


@dataclass(frozen=True, slots=True)
class Range:
    start: int
    end: int
    """Not included."""

    def content_range(self, size: int) -> str:
        return f"bytes {self.start}-{self.end - 1}/{size}"


def chosen(header: str | None, *, size: int) -> Range | None:
    """None for all of it: nothing was asked for, or nothing that can be understood.

    Raises HTTPException (416) for a range that has nothing of the document.
    """
    asked = _ONE_RANGE.fullmatch(header.strip()) if header else None
    if asked is None or not (asked["first"] or asked["last"]):
        return None
    if not asked["first"]:
        start, end = max(0, size - int(asked["last"])), size
    else:
        start, end = int(asked["first"]), min(int(asked["last"]) + 1 if asked["last"] else size, size)
        if asked["last"] and int(asked["last"]) < start:
            return None
    if start >= end:
        raise HTTPException(
            416, f"the document has {size} bytes, and none in this range", headers={"Content-Range": f"bytes */{size}"}
        )
    return Range(start, end)
