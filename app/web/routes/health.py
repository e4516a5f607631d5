"""Routes of health and metrics for operators: the same in every role, and without a key."""

import asyncio
from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from app.web.errors import HealthBody, ReadinessBody, ReadyBody
from app.web.metrics import exposition

router = APIRouter(tags=["operation"])

PATIENCE = 3
"""Seconds for each dependency to answer."""

OF_THE_MACHINE = frozenset({"recognition", "temp"})
"""Gates that are this machine's own. Others hang on services that all workers share."""


@router.get("/healthz", response_description="The process is alive.")
async def get_health() -> HealthBody:
    """Answer that the process is alive."""
    return HealthBody(status="ok")


@router.get(
    "/readyz",
    response_model=ReadyBody,
    response_description="All dependencies answer.",
    responses={503: {"model": ReadinessBody, "description": "A dependency is not ready; `not_ready` names it."}},
)
async def get_readiness(request: Request) -> JSONResponse:
    """Check that the database, queue, blob store and background loops answer.

    `degraded` names what a worker's jobs wait for while the process itself is ready. A worker alone, whose own machine
    can't read documents, is not ready.
    """
    state = request.app.state
    if state.runtime is None:
        return _not_ready(state.start.missing or {"service": "it is starting"})
    runtime = state.runtime
    faults: dict[str, str] = {}
    for name, ping in runtime.pings.items():
        try:
            async with asyncio.timeout(PATIENCE):
                await ping()
        except Exception as error:  # noqa: BLE001 - whatever the reason, it is reported as not ready
            faults[name] = "no answer in time" if isinstance(error, TimeoutError) else str(error)
    faults |= {loop: f"silent for {age:.0f} s" for loop, age in runtime.metrics.silent_loops().items()}
    closed = runtime.gates.faults
    if runtime.settings.role == "worker":
        faults |= {name: reason for name, reason in closed.items() if name in OF_THE_MACHINE}
    if faults:
        return _not_ready(faults)
    return JSONResponse({"status": "ok"} | ({"degraded": closed} if closed else {}))


def _not_ready(faults: Mapping[str, str]) -> JSONResponse:
    return JSONResponse({"status": "not ready", "not_ready": dict(faults)}, status_code=503)


@router.head("/healthz", response_class=Response, response_description="The process is alive.")
async def head_health() -> Response:
    """Answer like GET, without the body; many monitors use it."""
    return Response()


@router.head(
    "/readyz",
    response_class=Response,
    response_description="All dependencies answer.",
    responses={503: {"description": "A dependency is not ready; GET names it."}},
)
async def head_readiness(request: Request) -> Response:
    """Answer like GET, without the body."""
    return Response(status_code=(await get_readiness(request)).status_code)


@router.get("/metrics", response_class=PlainTextResponse, response_description="The metrics.")
async def get_metrics(request: Request) -> Response:
    """Return the metrics in Prometheus' text format."""
    state = request.app.state
    if state.runtime is None:
        body = await exposition(state.start.metrics, None)
    else:
        body = await exposition(state.runtime.metrics, state.runtime.looks)
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")
