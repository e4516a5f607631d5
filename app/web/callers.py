"""Who asks: known by the credential, held to a rate, and let in to what the scopes allow, in this order.

A route asks by the type of its first parameter, which is settled before any id is looked at: who may not ask never
learns whether an id exists.
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
from app.domain.rates import WINDOW, RateDecision
from app.domain.tenants import Caller
from app.services.limits import RateLimiter
from app.services.tenants import TenantService
from app.web.refusals import refuses


class _Admission(SecurityBase):
    """FastAPI's own scheme would answer in its own words, and 403 to who sends nothing."""

    scheme_name = "key"
    model = HTTPBearer(
        description="An API key, `daira_<tenant>_<secret>`. Each operation names the scope that the key needs; `admin`"
        " has them all."
    )

    async def __call__(self, request: Request, needed: SecurityScopes) -> Caller:
        caller = await _authenticated(request)
        _hold_to_rate(request, caller)
        _require(caller, needed.scopes)
        return caller


_caller = refuses(Unauthorized, Forbidden, TooMany, Unavailable)(_Admission())


async def may_still_read(request: Request) -> bool:
    """Of an answer that takes long: whether its credential is still good for it. Raises Unavailable."""
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
            f"more than {verdict.limit:,} requests a minute, the limit here: slow down",
            retry_after=timedelta(seconds=_whole(verdict.wait)),
        )


def _headers(verdict: RateDecision) -> dict[str, str]:
    """Of draft-ietf-httpapi-ratelimit-headers: within `t` seconds no more than `r` requests can be used."""
    return {
        "RateLimit-Policy": f'"requests";q={verdict.limit};w={WINDOW:.0f}',
        "RateLimit": f'"requests";r={verdict.remaining};t={_whole(verdict.wait)}',
    }


def _whole(seconds: float) -> int:
    return math.ceil(seconds - 1e-6)


def _require(caller: Caller, scopes: list[str]) -> None:
    if not caller.scopes:
        raise Forbidden("this credential has no scope of this service")
    missing = [scope for scope in scopes if not caller.may(Scope(scope))]
    if missing:
        raise Forbidden(f"this needs the scope {' and '.join(missing)}, which the credential does not have")


async def _tenant(caller: Annotated[Caller, Depends(_caller)]) -> TenantId:
    return caller.tenant_id


AnyCaller = Annotated[Caller, Depends(_caller)]
"""Whatever the scopes, if there are any."""

Reader = Annotated[TenantId, Security(_tenant, scopes=[Scope.DOCUMENTS_READ])]
Writer = Annotated[TenantId, Security(_tenant, scopes=[Scope.DOCUMENTS_WRITE])]
JobWriter = Annotated[TenantId, Security(_tenant, scopes=[Scope.JOBS_WRITE])]

WebhookWriter = Annotated[TenantId, Security(_tenant, scopes=[Scope.WEBHOOKS_WRITE])]
WritingCaller = Annotated[Caller, Security(_caller, scopes=[Scope.DOCUMENTS_WRITE])]
JobWritingCaller = Annotated[Caller, Security(_caller, scopes=[Scope.JOBS_WRITE])]
"""Where the caller's limits count as well."""
