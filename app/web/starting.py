"""Answers 503 to every request while the service is not open yet. Health and metrics answer for themselves."""

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.errors import RETRY_SOON, problem

ANSWERED = frozenset({"/healthz", "/readyz", "/metrics"})


class StartGate:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in ANSWERED or scope["app"].state.runtime is not None:
            await self._app(scope, receive, send)
            return
        answer = problem(
            Request(scope),
            status=503,
            code="unavailable",
            detail="the service is starting and waits for what it depends on: try again",
            headers={"Retry-After": str(RETRY_SOON)},
        )
        await answer(scope, receive, send)
