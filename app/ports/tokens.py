"""Tokens of an issuer outside, for callers that have no API key."""

from dataclasses import dataclass
from typing import Protocol

from app.domain.ids import TenantId
from app.domain.keys import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedToken:
    """What the issuer says of a caller. Whether there is such a tenant is not the issuer's to say."""

    tenant_id: TenantId
    name: str
    scopes: frozenset[Scope]


class TokenVerifier(Protocol):
    async def read(self, token: str) -> VerifiedToken:
        """Raises Unauthorized for whatever is wrong with it, Unavailable when the issuer can't be asked for keys."""
        ...
