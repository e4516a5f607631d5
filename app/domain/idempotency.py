"""A request that is to be done once, however often it is sent."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

LIFETIME = timedelta(hours=24)
"""From the first request with a key; afterwards it is as if it had never been used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    key: str
    operation: str
    """Method and path."""

    def fingerprint(self, parts: Mapping[str, object]) -> bytes:
        """Equal for equal requests. `parts` is all that the request asks for, with what it left out filled in."""
        canonical = json.dumps([self.operation, parts], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResponse:
    """What the first request with a key has come to."""

    fingerprint: bytes
    resource_id: UUID
    """What it was answered with: a document, a job."""
    made: bool
    """It has made that itself; or found it there."""
