"""API keys, `daira_<tenant>_<secret>`.

The tenant is read from the key; the secret is looked up under the tenant's clamp.
"""

import hashlib
import secrets
import string
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from app.domain.errors import Invalid, Unauthorized
from app.domain.ids import KeyId, TenantId, tenant_id

PREFIX = "daira_"
NOT_VALID = "the API key is not valid"
"""The same message, whatever is wrong with the key."""
ALPHABET = string.ascii_letters + string.digits
SECRET_LENGTH = 43
"""62 ** 43 is just above 2 ** 256. A plain SHA-256 of it can't be searched, so no slow hash is needed."""


class Scope(StrEnum):
    """A permission of a caller."""

    DOCUMENTS_READ = "documents:read"
    DOCUMENTS_WRITE = "documents:write"
    JOBS_WRITE = "jobs:write"
    WEBHOOKS_WRITE = "webhooks:write"
    """A separate scope, because a webhook's deliveries continue after the key that created it is revoked."""
    ADMIN = "admin"
    """Everything, including scopes added later."""


EVERYDAY = frozenset(Scope) - {Scope.ADMIN}
"""The scopes of a key that was created without naming any: all that a client of the API needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key as stored: only the SHA-256 of its secret, never the secret."""

    id: KeyId
    tenant_id: TenantId
    name: str
    secret_sha256: bytes
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def valid_at(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """The tenant and the secret's digest that a caller presents."""

    tenant_id: TenantId
    secret_sha256: bytes


def new_secret() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(SECRET_LENGTH))


def key_text(tenant: TenantId, secret: str) -> str:
    return f"{PREFIX}{tenant}_{secret}"


def secret_hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def parse_key(text: str) -> Credential:
    """Read a key. A tenant's name may hold `_`, a secret never does. Raises Unauthorized."""
    tenant, separator, secret = text.removeprefix(PREFIX).rpartition("_")
    if not text.startswith(PREFIX) or not separator or not (secret.isascii() and secret.isalnum()):
        raise Unauthorized(NOT_VALID)
    try:
        return Credential(tenant_id=tenant_id(tenant), secret_sha256=secret_hash(secret))
    except Invalid:
        raise Unauthorized(NOT_VALID) from None
