"""The port for an external issuer's tokens, used by callers without an API key."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from app.domain.ids import TenantId
from app.domain.keys import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedToken:
    """The issuer's claims about a caller. They don't prove that the tenant exists."""

    tenant_id: TenantId
    name: str
    scopes: frozenset[Scope]
    begins_at: int
    ends_at: int
    """Seconds since 1970. They allow for a difference between the clocks of the issuer and of the store."""

    def valid_at(self, now: datetime) -> bool:
        return self.begins_at <= now.timestamp() < self.ends_at


class TokenVerifier(Protocol):
    async def read(self, token: str) -> VerifiedToken:
        """Read a token. Raises Unauthorized for an invalid one, Unavailable when the issuer's keys can't be fetched.

        The token's times are not judged: that takes the store's clock.
        """
        ...
