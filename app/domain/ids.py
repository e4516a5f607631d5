"""Identifiers. Tenants have names; everything else has a UUIDv7 that the server makes."""

import os
import re
import time
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


def uuid7() -> UUID:
    """Return a UUID of RFC 9562, version 7: 48 bits of Unix milliseconds, 12 of their fraction, then 62 random bits.

    The fraction (section 6.2, method 3) keeps ids that a process makes in the same millisecond in their order.
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = (rest << 12) // 1_000_000
    random = int.from_bytes(os.urandom(8)) & ~(0x3 << 62)
    return UUID(int=(milliseconds << 80) | (0x7 << 76) | (fraction << 64) | (0x2 << 62) | random)
