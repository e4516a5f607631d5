"""Health, for whoever runs the service. The same in every role, and without a key."""

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from app.web.errors import HealthBody, ReadinessBody
from app.web.metrics import exposition

router = APIRouter(tags=["operation"])

PATIENCE = 3
"""Seconds for each dependency to answer."""


@router.get("/healthz", response_description="It lives.")
async def get_health() -> HealthBody:
    """The process lives."""
    return HealthBody(status="ok")


@router.get(
    "/readyz",
    response_model=HealthBody,
    response_description="All of them answer.",
    responses={503: {"model": ReadinessBody, "description": "Something is not ready: `not_ready` names it."}},
)
async def get_readiness(request: Request) -> JSONResponse:
    """Database, queue, blobs and background loops answer."""
    runtime = request.app.state.runtime
    faults: dict[str, str] = {}
    for name, ping in runtime.pings.items():
        try:
            async with asyncio.timeout(PATIENCE):
                await ping()
        except Exception as error:  # noqa: BLE001 - whatever the reason, it is not ready, and says so
            faults[name] = "no answer in time" if isinstance(error, TimeoutError) else str(error)
    faults |= {loop: f"silent for {age:.0f} s" for loop, age in runtime.metrics.silent_loops().items()}
    if faults:
        return JSONResponse({"status": "not ready", "not_ready": faults}, status_code=503)
    return JSONResponse({"status": "ok"})


@router.head("/healthz", response_class=Response, response_description="It lives.")
async def head_health() -> Response:
    """As GET, without the body: what many monitors ask."""
    return Response()


@router.head(
    "/readyz",
    response_class=Response,
    response_description="All of them answer.",
    responses={503: {"description": "Something is not ready: GET names it."}},
)
async def head_readiness(request: Request) -> Response:
    """As GET, without the body."""
    return Response(status_code=(await get_readiness(request)).status_code)


@router.get("/metrics", response_class=PlainTextResponse, response_description="The metrics.")
async def get_metrics(request: Request) -> Response:
    """Prometheus text format."""
    runtime = request.app.state.runtime
    body = await exposition(runtime.metrics, runtime.looks)
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")
