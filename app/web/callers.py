"""Authentication, share of the process, rate limit and scopes of a request, checked in this order.

A route requires a caller by the type of its first parameter, which is resolved before any id. So a client without
access never learns whether an id exists.
"""

import math
from datetime import timedelta
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security import SecurityScopes
from fastapi.security.base import SecurityBase

from app.domain.errors import Forbidden, TooMany, Unauthorized, Unavailable
from app.domain.ids import TenantId
from app.domain.keys import Scope
from app.domain.tenants import WINDOW, Caller, RateDecision
from app.services.limits import RateLimiter
from app.services.tenants import TenantService
from app.web.refusals import refuses


class _CallerSecurity(SecurityBase):
    """Admits a request's caller. FastAPI's own scheme would answer a missing key with 403, in its own format."""

    scheme_name = "key"
    model = HTTPBearer(
        description="An API key, `daira_<tenant>_<secret>`. Each operation names the scope that the key needs; `admin`"
        " has them all."
    )

    async def __call__(self, request: Request, needed: SecurityScopes) -> Caller:
        caller = await _authenticated(request)
        await request.state.account.admit(request.app.state.runtime.shares, caller.tenant_id)
        _hold_to_rate(request, caller)
        _require(caller, needed.scopes)
        return caller


_caller = refuses(Unauthorized, Forbidden, TooMany, Unavailable)(_CallerSecurity())


async def may_still_read(request: Request) -> bool:
    """Return True if the credential of a long answer may still read. Raises Unavailable."""
    try:
        return (await _authenticated(request)).may(Scope.DOCUMENTS_READ)
    except (Unauthorized, Forbidden):
        return False


async def _authenticated(request: Request) -> Caller:
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not credential:
        raise Unauthorized("send an API key: Authorization: Bearer daira_<tenant>_<secret>")
    tenants: TenantService = request.app.state.runtime.tenants
    return await tenants.authenticate(credential.strip())


def _hold_to_rate(request: Request, caller: Caller) -> None:
    rates: RateLimiter = request.app.state.runtime.rates
    verdict = rates.judge(caller.tenant_id, limit=caller.allowance.requests_per_minute)
    request.state.rate_headers = _headers(verdict)
    if not verdict.admitted:
        raise TooMany(
            f"more than {verdict.limit:,} requests a minute, this tenant's limit; slow down",
            retry_after=timedelta(seconds=_whole(verdict.wait)),
        )


def _headers(verdict: RateDecision) -> dict[str, str]:
    """Return the headers of draft-ietf-httpapi-ratelimit-headers: `r` requests are left in the next `t` seconds."""
    return {
        "RateLimit-Policy": f'"requests";q={verdict.limit};w={WINDOW:.0f}',
        "RateLimit": f'"requests";r={verdict.remaining};t={_whole(verdict.wait)}',
    }


def _whole(seconds: float) -> int:
    return math.ceil(seconds - 1e-6)


def _require(caller: Caller, scopes: list[str]) -> None:
    if not caller.scopes:
        raise Forbidden("this credential grants no Daira scope; see docs/operations.md#tokens-of-an-oidc-issuer")
    missing = [scope for scope in scopes if not caller.may(Scope(scope))]
    if missing:
        raise Forbidden(f"this credential lacks the scope {' and '.join(missing)}; use a key that has it")


async def _tenant(caller: Annotated[Caller, Depends(_caller)]) -> TenantId:
    return caller.tenant_id


AnyCaller = Annotated[Caller, Depends(_caller)]
"""A caller with any scope."""

Reader = Annotated[TenantId, Security(_tenant, scopes=[Scope.DOCUMENTS_READ])]
Writer = Annotated[TenantId, Security(_tenant, scopes=[Scope.DOCUMENTS_WRITE])]
JobWriter = Annotated[TenantId, Security(_tenant, scopes=[Scope.JOBS_WRITE])]

WebhookWriter = Annotated[TenantId, Security(_tenant, scopes=[Scope.WEBHOOKS_WRITE])]
WritingCaller = Annotated[Caller, Security(_caller, scopes=[Scope.DOCUMENTS_WRITE])]
JobWritingCaller = Annotated[Caller, Security(_caller, scopes=[Scope.JOBS_WRITE])]
"""A caller that may request jobs, with its limits."""
