"""Idempotency keys: a request that is carried out once, however often it is sent."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

LIFETIME = timedelta(hours=24)
"""Counted from the first request with a key. Afterwards the key counts as unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    key: str
    operation: str
    """Method and path."""

    def fingerprint(self, parts: Mapping[str, object]) -> bytes:
        """Return a digest that is equal for equal requests.

        `parts` holds the whole request, with its defaults filled in.
        """
        canonical = json.dumps([self.operation, parts], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResponse:
    """The outcome of the first request with a key."""

    fingerprint: bytes
    resource_id: UUID
    """The id in that request's response: a document's or a job's."""
    made: bool
    """True where that request created the resource; False where it found the resource in place."""
