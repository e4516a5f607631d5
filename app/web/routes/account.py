"""The tenant's account: its usage by day, and the key's scopes and limits."""

import re
from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator

from app.domain.usage import DailyUsage, UsageCounts, total_usage
from app.web.callers import AnyCaller, Reader
from app.web.dependencies import TheUsage
from app.web.schemas import MeBody

usage_routes = APIRouter(prefix="/v1/usage", tags=["usage"])


def _check_day_format(value: object) -> object:
    """Refuse a number, which Pydantic would read as seconds since 1970."""
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        raise ValueError("write the day like 2026-11-30")
    return value


IsoDay = Annotated[date, BeforeValidator(_check_day_format)]


class TokensBody(BaseModel):
    input: int
    output: int


class UsedBody(BaseModel):
    documents: int
    pages: int
    bytes: int
    tokens: TokensBody

    @classmethod
    def of(cls, used: UsageCounts) -> "UsedBody":
        tokens = TokensBody(input=used.input_tokens, output=used.output_tokens)
        return cls(documents=used.documents, pages=used.pages, bytes=used.bytes, tokens=tokens)


class DayBody(UsedBody):
    day: date


class UsageBody(BaseModel):
    data: list[DayBody]
    """The days of the range, also days without usage."""
    total: UsedBody

    @classmethod
    def of(cls, days: list[DailyUsage]) -> "UsageBody":
        return cls(
            data=[DayBody(day=each.day, **UsedBody.of(each.used).model_dump()) for each in days],
            total=UsedBody.of(total_usage(each.used for each in days)),
        )


@usage_routes.get("")
async def get_usage(
    tenant_id: Reader,
    usage: TheUsage,
    first: Annotated[IsoDay | None, Query(alias="from", description="The first day, UTC. Default: 30 days.")] = None,
    last: Annotated[IsoDay | None, Query(alias="to", description="The last day, UTC. Default: today.")] = None,
) -> UsageBody:
    """Return documents and bytes uploaded, pages read, and a language model's tokens: by day, and in total."""
    return UsageBody.of(await usage.by_day(tenant_id, first=first, last=last))


me_routes = APIRouter(prefix="/v1/me", tags=["me"])


@me_routes.get("")
async def get_me(caller: AnyCaller) -> MeBody:
    """Return the tenant, the key, its scopes and limits. Any scope will do."""
    return MeBody.of(caller)
