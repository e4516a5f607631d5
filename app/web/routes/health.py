"""Health, for whoever runs the service. The same in every role, and without a key."""

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from app.web.metrics import exposition

router = APIRouter(tags=["operation"])

PATIENCE = 3
"""Seconds for each dependency to answer."""


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"description": "Something is not ready: `not_ready` names it."}})
async def readyz(request: Request) -> JSONResponse:
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


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Prometheus text format."""
    runtime = request.app.state.runtime
    body = await exposition(runtime.metrics, runtime.sweeps)
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")
