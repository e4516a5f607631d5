"""Usage: what a tenant has had done, by day."""

import re
from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator

from app.domain.usage import DailyUsage, UsageCounts, total
from app.web.callers import AnyCaller, Reader
from app.web.dependencies import TheUsage
from app.web.schemas import MeBody

usage_routes = APIRouter(prefix="/v1/usage", tags=["usage"])


def _written(value: object) -> object:
    """A number, which Pydantic would take for seconds since some day, is no date."""
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        raise ValueError("a day is written like 2026-11-30")
    return value


Day = Annotated[date, BeforeValidator(_written)]


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
    """A day for each, also where nothing was used."""
    total: UsedBody

    @classmethod
    def of(cls, days: list[DailyUsage]) -> "UsageBody":
        return cls(
            data=[DayBody(day=each.day, **UsedBody.of(each.used).model_dump()) for each in days],
            total=UsedBody.of(total(each.used for each in days)),
        )


@usage_routes.get("")
async def get_usage(
    tenant_id: Reader,
    usage: TheUsage,
    first: Annotated[Day | None, Query(alias="from", description="The first day, UTC; else 30 days are told.")] = None,
    last: Annotated[Day | None, Query(alias="to", description="The last day, UTC; else today.")] = None,
) -> UsageBody:
    """Documents and bytes uploaded, pages read, and a language model's tokens: each day, and all together."""
    return UsageBody.of(await usage.by_day(tenant_id, first=first, last=last))


me_routes = APIRouter(prefix="/v1/me", tags=["me"])


@me_routes.get("")
async def get_me(caller: AnyCaller) -> MeBody:
    """The tenant, the key, its scopes, and the limits that hold for it. Any scope will do."""
    return MeBody.of(caller)
