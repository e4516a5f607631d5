"""Verifies JWTs of one issuer: signature, issuer and audience. Refuses them in the words used for a bad key.

Their times are read here and judged by the store's clock, because this process's own may be wrong.
"""

from collections.abc import Mapping
from typing import Any

import jwt

from app.adapters.oidc.issuer import IssuerKeys
from app.domain import ids
from app.domain.errors import Invalid, Unauthorized
from app.domain.keys import NOT_VALID, Scope
from app.ports.tokens import VerifiedToken

LONGEST = 8_192
"""Characters. Real tokens have one or two thousand."""

LEEWAY = 30
"""Seconds by which clocks may differ."""

NAME_LENGTH = 200


class OidcTokenVerifier:
    def __init__(self, issuer: IssuerKeys, *, url: str, audience: str, tenant_claim: str, scope_claim: str) -> None:
        self._issuer = issuer
        self._url = url
        self._audience = audience
        self._tenant_claim = tenant_claim
        self._scope_claim = scope_claim

    async def read(self, token: str) -> VerifiedToken:
        try:
            return self._vouched(await self._claims(token))
        except (jwt.PyJWTError, Invalid, ValueError, TypeError, OverflowError, RecursionError):
            # The reason is not reported, because it would help to forge a token.
            raise Unauthorized(NOT_VALID) from None

    async def _claims(self, token: str) -> Mapping[str, Any]:
        if len(token) > LONGEST:
            raise ValueError
        header = jwt.get_unverified_header(token)
        kid = header.get("kid")
        key = await self._issuer.key(None if kid is None else str(kid))
        if key is None:
            raise ValueError
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            # Only the key's own algorithm: the token's header may not choose another one.
            algorithms=[key.algorithm_name],
            issuer=self._url,
            audience=self._audience,
            options={
                "require": ["exp", "iss", "aud"],
                "enforce_minimum_key_length": True,
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
        return claims

    def _vouched(self, claims: Mapping[str, Any]) -> VerifiedToken:
        tenant = claims.get(self._tenant_claim)
        if not isinstance(tenant, str):
            raise TypeError
        return VerifiedToken(
            tenant_id=ids.tenant_id(tenant),
            name=str(claims.get("sub", "token"))[:NAME_LENGTH],
            scopes=_scopes(claims.get(self._scope_claim)),
            begins_at=max(int(claims.get(name, 0)) for name in ("nbf", "iat")) - LEEWAY,
            ends_at=int(claims["exp"]) + LEEWAY,
        )


def _scopes(claim: object) -> frozenset[Scope]:
    """The known scopes in a claim: a space-separated text (RFC 8693) or a list. Other services' scopes are left out."""
    named = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    known = set(Scope)
    return frozenset(Scope(name) for name in named if isinstance(name, str) and name in known)
