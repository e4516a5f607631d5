"""Identifiers. Tenants have names; everything else has a UUIDv7 that the server makes."""

import os
import re
import time
from datetime import UTC, datetime, timedelta
from typing import NewType
from uuid import UUID

from app.domain.errors import Invalid

TenantId = NewType("TenantId", str)
DocumentId = NewType("DocumentId", UUID)
JobId = NewType("JobId", UUID)
KeyId = NewType("KeyId", UUID)
WebhookId = NewType("WebhookId", UUID)

TENANT_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
"""Names that fit a URL, a blob key and a file name on every system, whatever its rules on case."""


def tenant_id(text: str) -> TenantId:
    """Return the name as a tenant's id. It is never trimmed or folded, so that two spellings are never one tenant."""
    if not TENANT_PATTERN.fullmatch(text):
        raise Invalid(
            "a tenant's name has 1 to 63 lower-case letters, digits, - and _, and begins with a letter or digit"
        )
    return TenantId(text)


def uuid7(at: int | None = None) -> UUID:
    """Return a UUID of RFC 9562, version 7: 48 bits of Unix milliseconds, 12 of their fraction, then 62 random bits.

    The fraction (section 6.2, method 3) keeps ids that a process makes in the same millisecond in their order. `at` is
    in nanoseconds since 1970; the default is this process's own time, which may be wrong. So nothing is listed by such
    an id: a listing's ids are those of a transaction.
    """
    milliseconds, rest = divmod(time.time_ns() if at is None else at, 1_000_000)
    fraction = (rest << 12) // 1_000_000
    random = int.from_bytes(os.urandom(8)) & ~(0x3 << 62)
    return UUID(int=(milliseconds << 80) | (0x7 << 76) | (fraction << 64) | (0x2 << 62) | random)


EPOCH = datetime.fromtimestamp(0, UTC)
STEP = 250
"""Nanoseconds between two ids of one moment, just above the fraction's resolution (1 ms / 4096)."""


class OrderedIds:
    """Makes UUIDs of version 7, each greater than those before."""

    def __init__(self) -> None:
        self._next = 0

    def at(self, moment: datetime) -> UUID:
        """Return an id of that moment, or of just after the last one's where that was later."""
        at = max(self._next, (moment - EPOCH) // timedelta(microseconds=1) * 1_000)
        self._next = at + STEP
        return uuid7(at)
