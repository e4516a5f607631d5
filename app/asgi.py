"""One ASGI program: routes where the role serves, a worker where it works, health in every role."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from app.settings import Role, Settings
from app.starting import Start
from app.telemetry import Metrics
from app.web import docs_page, errors
from app.web.loop_accounts import LoopMeter
from app.web.openapi.document import DescribedApp, operation_id
from app.web.openapi.headers import COMPONENTS
from app.web.openapi.texts import TAGS
from app.web.request_log import RequestLog
from app.web.routes import account, documents, events, health, jobs, outputs, search, webhooks
from app.web.slow_clients import SlowBodyGuard
from app.web.starting import StartGate
from app.wiring import close_spans, open_spans

DESCRIPTION = "Upload a document, get its text. No accepted job is ever lost."


def create_app(settings: Settings) -> FastAPI:
    metrics = Metrics()
    spans = open_spans()
    serves = settings.role is not Role.WORKER

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with app.state.start.running():
            yield
        await close_spans(spans)

    app = DescribedApp(
        title="Daira",
        version="0.1.0",
        description=DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        openapi_tags=TAGS,
        generate_unique_id_function=operation_id,
        lifespan=lifespan,
        openapi_url="/openapi.json" if serves else None,
        docs_url=None,
        redoc_url=None,
        # It would lead to wherever the Host header says, and drop to plain http behind a proxy that ends TLS.
        redirect_slashes=False,
    )
    app.state.debug = settings.debug
    app.state.runtime = None
    app.state.start = Start(settings, metrics, spans, state=app.state)
    if serves:
        # Routes are tried one after the other: what is asked for most comes first.
        app.include_router(jobs.router)
        app.include_router(documents.router)
        app.include_router(outputs.router)
        app.include_router(events.router)
        app.include_router(account.me_routes)
        app.include_router(search.router)
        app.include_router(webhooks.router)
        app.include_router(account.usage_routes)
        docs_page.install(app)
    app.include_router(health.router)
    errors.install(app)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["*"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "Idempotency-Key",
                "Last-Event-ID",
                "Prefer",
                "X-Request-ID",
            ],
            expose_headers=sorted(COMPONENTS),
        )
    # Within the guard: what a body waits for its tenant's share is no slowness of the client.
    app.add_middleware(LoopMeter)
    app.add_middleware(StartGate)
    app.add_middleware(SlowBodyGuard, patience=settings.client_patience_seconds)
    app.add_middleware(RequestLog, metrics=metrics, spans=spans)
    return app
