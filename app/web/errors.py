"""Errors as RFC 9457 problems, with the one table that maps the domain's errors to HTTP statuses."""

import math
import traceback
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Literal

import structlog
from anyio import BrokenResourceError
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from app.domain.errors import (
    Collided,
    Conflict,
    DairaError,
    Forbidden,
    IdempotencyMismatch,
    Invalid,
    LlmNotConfigured,
    Misconfigured,
    NotFound,
    NotReady,
    TooLarge,
    TooMany,
    Unauthorized,
    Unavailable,
    Unsupported,
)

PROBLEM = "application/problem+json"


class FieldFault(BaseModel):
    """A fault in a request: its place, as a JSON pointer, and its reason."""

    pointer: str
    detail: str


class Problem(BaseModel):
    """A problem document (RFC 9457). `code` is for programs, `detail` for people."""

    type: str = Field(description="A URI reference; `about:blank` if the status says it all.")
    title: str
    status: int
    detail: str
    code: str = Field(description="The problem's name in snake_case. Names never change; new ones may be added.")
    request_id: str
    errors: list[FieldFault] | None = Field(None, description="The faults of a request that is not valid.")


class HealthBody(BaseModel):
    """The status of a healthy or ready service."""

    status: Literal["ok"]


class ReadyBody(HealthBody):
    """A ready service. `degraded` has what some jobs wait for, each with the reason."""

    degraded: dict[str, str] | None = None


class ReadinessBody(BaseModel):
    """The parts that are not ready, each with the reason."""

    status: Literal["not ready"]
    not_ready: dict[str, str]


log = structlog.get_logger()

STATUS: dict[type[DairaError], int] = {
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    NotReady: 409,
    LlmNotConfigured: 409,
    TooLarge: 413,
    Unsupported: 415,
    Invalid: 422,
    IdempotencyMismatch: 422,
    TooMany: 429,
    Unavailable: 503,
    Misconfigured: 503,
    Collided: 503,
}

TITLES = {
    "unauthorized": "Unauthorized",
    "forbidden": "Forbidden",
    "not_found": "Not found",
    "method_not_allowed": "Method not allowed",
    "request_timeout": "Request timeout",
    "conflict": "Conflict",
    "not_ready": "Not ready",
    "llm_not_configured": "No language model",
    "payload_too_large": "Payload too large",
    "unsupported_media_type": "Unsupported media type",
    "invalid": "Invalid request",
    "idempotency_mismatch": "Another request with this key",
    "too_many_requests": "Too many requests",
    "unavailable": "Unavailable",
    "internal": "Internal error",
}

FRAMEWORK_CODES = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
}

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

AWAY = "a part of the service is not available: try again in a few seconds"

RETRY_SOON = 5
"""Seconds of Retry-After if no better time is known."""


def install(app: FastAPI) -> None:
    app.add_exception_handler(DairaError, _daira_error)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _framework_error)
    app.add_exception_handler(ClientDisconnect, _client_left)
    app.add_exception_handler(Exception, _unforeseen)


def problem(
    request: Request,
    *,
    status: int,
    code: str,
    detail: str,
    errors: Sequence[FieldFault] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    body = as_problem(status=status, code=code, detail=detail, request_id=request.state.request_id, errors=errors)
    return JSONResponse(
        body.model_dump(exclude_none=True), status_code=status, media_type=PROBLEM, headers=dict(headers or {})
    )


def as_problem(
    *, status: int, code: str, detail: str, request_id: str, errors: Sequence[FieldFault] | None = None
) -> Problem:
    return Problem(
        type="about:blank",
        title=TITLES[code],
        status=status,
        detail=detail,
        code=code,
        request_id=request_id,
        errors=list(errors) if errors else None,
    )


async def _daira_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DairaError)
    status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), None)
    if status is None:
        raise error  # an error of the worker, unforeseen in a request
    headers: dict[str, str] = {}
    errors, detail = None, str(error)
    match error:
        case Unauthorized():
            headers["WWW-Authenticate"] = 'Bearer realm="daira"'
        case TooMany(retry_after=timedelta() as wait) | Conflict(retry_after=timedelta() as wait):
            headers["Retry-After"] = str(math.ceil(wait.total_seconds()))
        case Unavailable():
            headers["Retry-After"] = str(RETRY_SOON)
            log.warning("request_unavailable", reason=detail)
            detail = error.public or AWAY
        case Invalid(pointer=pointer) if pointer or error.code == Invalid.code:
            errors = [FieldFault(pointer=pointer or json_pointer(()), detail=detail)]
        case _:
            pass
    return problem(request, status=status, code=error.code, detail=detail, errors=errors, headers=headers)


async def _malformed(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = [
        FieldFault(pointer=json_pointer(fault["loc"][1:]), detail=plain_message(fault["msg"]))
        for fault in error.errors()
    ]
    return problem(
        request, status=422, code="invalid", detail=f"{faults[0].pointer}: {faults[0].detail}", errors=faults
    )


async def _framework_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status, headers, detail = error.status_code, error.headers, error.detail
    errors = None
    match status:
        case 400:
            # The parser gave up on a body that is not UTF-8 or nested too deeply: answer like any invalid body.
            status, detail = 422, "the body is not JSON"
            errors = [FieldFault(pointer=json_pointer(()), detail=detail)]
        case 404:
            detail = "there is nothing at this address"
            if request.url.path.endswith("/"):
                detail += "; try it without the slash at its end"
        case 405:
            allowed = ", ".join(_allowed(request))
            headers, detail = {"Allow": allowed}, f"this address takes {allowed}"
        case _:
            pass
    code = FRAMEWORK_CODES.get(status, "invalid")
    return problem(request, status=status, code=code, detail=detail, errors=errors, headers=headers)


def _allowed(request: Request) -> list[str]:
    """Return all methods of the address; the router itself names only those of the first route that matches."""
    routes = request.app.routes
    return [
        method
        for method in METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]


async def _client_left(_request: Request, _error: Exception) -> Response:
    """Return nginx's status 499, for the log and the histogram: the client has closed its connection."""
    return Response(status_code=499)


def _is_of_a_left_stream(error: BaseException) -> bool:
    """True for what the framework raises where a client leaves a stream while an event is being sent."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_of_a_left_stream, error.exceptions))
    return isinstance(error, BrokenResourceError)


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    if not _is_of_a_left_stream(error):
        log.error("request_failed", path=request.url.path, exc_info=error)
    detail = "internal error; quote the request_id when you report it"
    if request.app.state.debug:
        detail = "".join(traceback.format_exception(error))
    # Starlette answers this outside of all middleware, so the headers that `RequestLog` adds are added here.
    headers = {"X-Request-ID": request.state.request_id, "X-Content-Type-Options": "nosniff"}
    headers |= getattr(request.state, "rate_headers", {})
    headers |= {"Cache-Control": "no-store"}
    return problem(request, status=500, code="internal", detail=detail, headers=headers)


def plain_message(message: str) -> str:
    """Strip Pydantic's `Value error, ` prefix from a message for API clients."""
    return message.removeprefix("Value error, ")


def json_pointer(location: Sequence[object]) -> str:
    """Return a JSON pointer (RFC 6901): `("jobs", 0)` is `/jobs/0`."""
    parts = [str(part).replace("~", "~0").replace("/", "~1") for part in location]
    return "/" + "/".join(parts)
