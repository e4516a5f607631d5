"""A Postgres snapshot as a position: what a client keeps, and may send back in any state.

`xmin.width.running`, in hexadecimal: the width is that of xmax beyond xmin, and so are the transactions that were under
way between them. `2f.3.0-2` is 47:50:47,49.
"""

import re

from app.domain.changes import Position

Snapshot = tuple[int, int, tuple[int, ...]]
"""xmin, xmax and the transactions between them that it does not see; how the driver writes a pg_snapshot."""

MOST_RUNNING = 500
"""Transactions in a position, for it travels in a header."""

SHAPE = re.compile(r"([0-9a-f]{1,15})\.([0-9a-f]{1,8})\.((?:[0-9a-f]{1,8}(?:-[0-9a-f]{1,8})*)?)")
FIRST_NORMAL = 3
LONGEST = 16 + 9 + 9 * MOST_RUNNING


def position_of(snapshot: Snapshot) -> Position:
    xmin, xmax, running = snapshot
    if len(running) > MOST_RUNNING:
        # Seen is less than was: it repeats some, and loses nothing.
        xmax, running = running[MOST_RUNNING], running[:MOST_RUNNING]
    return Position(f"{xmin:x}.{xmax - xmin:x}.{'-'.join(f'{number - xmin:x}' for number in running)}")


def snapshot_of(position: Position) -> Snapshot | None:
    """None for what no snapshot was written as."""
    found = SHAPE.fullmatch(position) if len(position) <= LONGEST else None
    if found is None:
        return None
    xmin, width = int(found[1], 16), int(found[2], 16)
    running = sorted({int(number, 16) for number in found[3].split("-") if number})
    if xmin < FIRST_NORMAL or (running and running[-1] >= width):
        return None
    return xmin, xmin + width, tuple(xmin + number for number in running)
