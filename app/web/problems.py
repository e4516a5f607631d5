"""What is wrong, as it goes over the wire: with a request, or with the service."""

from typing import Literal

from pydantic import BaseModel, Field

PROBLEM = "application/problem+json"


class FieldFault(BaseModel):
    """What is wrong, and where."""

    pointer: str
    detail: str


class Problem(BaseModel):
    """What went wrong (RFC 9457). `code` is for programs, `detail` for people."""

    type: str = Field(description="A URI reference; `about:blank` where the status says it all.")
    title: str
    status: int
    detail: str
    code: str = Field(description="In snake_case, and never changed; new ones may come.")
    request_id: str
    errors: list[FieldFault] | None = Field(None, description="Of a request that is not valid.")


class HealthBody(BaseModel):
    """It is well."""

    status: Literal["ok"]


class ReadinessBody(BaseModel):
    """What is not ready, and why."""

    status: Literal["not ready"]
    not_ready: dict[str, str]
