"""Adapters by the settings that choose them: the only place that knows a URL's scheme and the class behind it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import httpx
import structlog

from app.adapters.filesystem.blobs import FileBlobs
from app.adapters.llm.client import LlmClient
from app.adapters.memory.blobs import MemoryBlobs
from app.adapters.memory.database import MemoryDatabase
from app.adapters.memory.doorbell import MemoryDoorbell
from app.adapters.memory.leases import MemoryLeases, MemorySweeps
from app.adapters.memory.store import MemoryStore
from app.adapters.postgres.database import PostgresDatabase
from app.adapters.postgres.doorbell import PostgresDoorbell
from app.adapters.postgres.engine import PostgresEngine
from app.adapters.postgres.isolation.probe import PostgresIsolationProbe
from app.adapters.postgres.leases import PostgresLeases
from app.adapters.postgres.sweeps import PostgresSweeps
from app.adapters.redis.doorbell import RedisDoorbell
from app.adapters.s3.blobs import S3Blobs
from app.adapters.s3.bucket import S3Bucket
from app.adapters.sqs.doorbell import SqsDoorbell
from app.adapters.webhook.sender import HttpWebhookSender
from app.adapters.webhook.targets import TargetResolver
from app.domain.doorbells import Lane
from app.domain.errors import Misconfigured, Unavailable
from app.ports.blobs import InventoriedBlobs
from app.ports.calls import BoundedCaller
from app.ports.database import KeyedDatabase
from app.ports.doorbell import Doorbell
from app.ports.leases import Leases, Sweeps
from app.ports.llm import Llm
from app.ports.reading import Recognizer, Renderer
from app.ports.tokens import TokenVerifier
from app.reading.function_caller import ProcessCaller
from app.reading.null import NullRecognizer, NullRenderer
from app.reading.recognizer import ProcessRecognizer
from app.reading.renderer import ProcessRenderer
from app.settings import Environment, Role, Settings, is_traced
from app.telemetry import Metrics
from app.tracing import NullSpans, Spans
from app.worker.heartbeat import OpenLeases, shared_leases

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One way of keeping state, seen through its ports."""

    database: KeyedDatabase
    leases: Leases
    sweeps: Sweeps
    open_leases: OpenLeases
    ping: Callable[[], Awaitable[object]]


CLAIMS = 4
"""Connections for claims, settles and sweeps. Handlers that hold one for their results can't keep these waiting."""
HEARTBEATS = 1
BELLS = len(Lane) + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionBudget:
    """The connections that this process may hold to the main database at most, by purpose."""

    pooled: Mapping[str, int]
    """Through DAIRA_DATABASE_URL, which may lead to a pooler."""
    direct: Mapping[str, int]
    """By DAIRA_LISTEN_URL, or all where there is no pooler."""

    @property
    def total(self) -> int:
        return sum(self.pooled.values()) + sum(self.direct.values())


def connection_budget(settings: Settings) -> ConnectionBudget:
    """The sum of the pools that `open_store` and `open_doorbells` make."""
    works = settings.role is not Role.WEB
    held = {"requests and handlers": settings.pool_size, "claims": CLAIMS}
    held |= {"heartbeats": HEARTBEATS} if works else {}
    listening: dict[str, int] = {}
    if not settings.queue_url.get_secret_value():
        held["doorbells"] = BELLS
        listening = {"listening": len(settings.lanes)} if works else {}
    return (
        ConnectionBudget(pooled=held, direct=listening)
        if settings.pooled
        else ConnectionBudget(pooled={}, direct=held | listening)
    )


async def open_store(settings: Settings, stack: AsyncExitStack) -> Store:
    if settings.memory_store:
        memory = MemoryStore()
        leases = MemoryLeases(memory)

        async def nothing_to_reach() -> None: ...

        return Store(
            database=MemoryDatabase(memory),
            leases=leases,
            sweeps=MemorySweeps(memory),
            open_leases=lambda: shared_leases(leases),
            ping=nothing_to_reach,
        )
    url = settings.database_url.get_secret_value()
    tenants = _engine(settings, stack, pool_size=settings.pool_size, name=settings.role)
    claims = _engine(settings, stack, pool_size=CLAIMS, name="claims")

    @asynccontextmanager
    async def own_leases() -> AsyncIterator[Leases]:
        engine = PostgresEngine(url, pool_size=HEARTBEATS, name="heart", pooled=settings.pooled)
        try:
            # Before the first lease needs it: on a busy machine connecting may take longer than a beat is given.
            with suppress(Unavailable):
                await engine.call("select")
            yield PostgresLeases(engine)
        finally:
            await engine.close()

    return Store(
        database=PostgresDatabase(tenants),
        leases=PostgresLeases(claims),
        sweeps=PostgresSweeps(claims),
        open_leases=own_leases,
        ping=tenants.ping,
    )


def open_isolation_probe(settings: Settings, stack: AsyncExitStack) -> PostgresIsolationProbe:
    return PostgresIsolationProbe(_engine(settings, stack, pool_size=1, name="wall"))


async def open_doorbells(settings: Settings, stack: AsyncExitStack, metrics: Metrics) -> dict[Lane, Doorbell]:
    """A queue for each lane, all on one server."""
    dropped = metrics.doorbells.labels("dropped").inc
    url = settings.queue_url.get_secret_value()
    match url.partition("://")[0]:
        case "memory":
            return {lane: MemoryDoorbell() for lane in Lane}
        case "redis" | "rediss" | "unix":
            return {lane: _closed_at_exit(RedisDoorbell(url, lane=lane, dropped=dropped), stack) for lane in Lane}
        case "sqs":
            return {lane: await _open_sqs(settings, stack, lane=lane, dropped=dropped) for lane in Lane}
        case _:
            engine, listen_url = _queue_engine(settings, stack)
            return {
                lane: _closed_at_exit(
                    PostgresDoorbell(engine, lane=lane, listen_url=listen_url, dropped=dropped), stack
                )
                for lane in Lane
            }


def _queue_engine(settings: Settings, stack: AsyncExitStack) -> tuple[PostgresEngine, str]:
    """The main database's, unless the queue has one of its own; and where to listen."""
    own = settings.queue_url.get_secret_value()
    url = own or settings.database_url.get_secret_value()
    pooled = settings.pooled and not own
    engine = PostgresEngine(url, pool_size=BELLS, name="doorbells", pooled=pooled)
    stack.push_async_callback(engine.close)
    return engine, settings.listen_url.get_secret_value() if pooled else url


async def _open_sqs(
    settings: Settings, stack: AsyncExitStack, *, lane: Lane, dropped: Callable[[int], object]
) -> SqsDoorbell:
    prefix = urlsplit(settings.queue_url.get_secret_value()).netloc
    doorbell = SqsDoorbell(
        queue=f"{prefix}-{lane}",
        endpoint_url=settings.aws_endpoint_url,
        region=settings.aws_region,
        dropped=dropped,
    )
    _closed_at_exit(doorbell, stack)
    try:
        await doorbell.open()
    except Misconfigured:
        raise
    except Unavailable as error:
        # As with the other queues: who starts while the queue is away waits for it, and /readyz says so.
        log.info("queue_not_found_yet", lane=lane, reason=str(error))
    return doorbell


class _Closable(Protocol):
    async def close(self) -> None: ...


ClosableT = TypeVar("ClosableT", bound=_Closable)


def _closed_at_exit(part: ClosableT, stack: AsyncExitStack) -> ClosableT:
    stack.push_async_callback(part.close)
    return part


async def open_blobs(settings: Settings, stack: AsyncExitStack) -> InventoriedBlobs:
    url = urlsplit(settings.blob_url)
    match url.scheme:
        case "memory":
            return MemoryBlobs()
        case "s3":
            bucket = S3Bucket(
                url.netloc,
                prefix=url.path.strip("/"),
                endpoint_url=settings.aws_endpoint_url,
                region=settings.aws_region,
            )
            _closed_at_exit(bucket, stack)
            await bucket.open()
            return S3Blobs(bucket)
        case "file":
            return FileBlobs(Path(unquote(url.path)))
        case _:
            return FileBlobs(settings.data_dir / "blobs")


def open_tokens(settings: Settings, stack: AsyncExitStack) -> TokenVerifier | None:
    if not settings.oidc_issuer:
        return None
    # Cryptography takes its time to load: for those alone who use it.
    from app.adapters.oidc.issuer import PATIENCE, IssuerKeys
    from app.adapters.oidc.tokens import OidcTokenVerifier

    client = httpx.AsyncClient(timeout=PATIENCE)
    stack.push_async_callback(client.aclose)
    return OidcTokenVerifier(
        IssuerKeys(settings.oidc_issuer, client),
        url=settings.oidc_issuer,
        audience=settings.oidc_audience,
        tenant_claim=settings.oidc_tenant_claim,
        scope_claim=settings.oidc_scope_claim,
    )


def open_spans() -> Spans:
    """Recorded where the standard OTEL_* variables name a collector; a service without the extra runs untraced."""
    if not is_traced():
        return NullSpans()
    if find_spec("opentelemetry.sdk") is None or find_spec("opentelemetry.exporter") is None:
        log.error("tracing_not_installed", reason="OTEL_* is set; install what it needs: pip install 'daira[otel]'")
        return NullSpans()
    from app.adapters.otel.spans import exporting

    return exporting("daira")


async def close_spans(spans: Spans) -> None:
    if close := getattr(spans, "close", None):
        await asyncio.to_thread(close)


def open_llm(settings: Settings, stack: AsyncExitStack, metrics: Metrics) -> Llm | None:
    if not settings.llm_base_url:
        return None
    client = LlmClient(
        base_url=settings.llm_base_url,
        model=settings.llm_model,
        api_key=settings.llm_api_key.get_secret_value(),
        context_tokens=settings.llm_context_tokens,
        slots=settings.lanes.get(Lane.LLM, 1),
        first_byte_seconds=settings.llm_first_byte_seconds,
        total_seconds=settings.llm_total_seconds,
        metrics=metrics,
    )
    return _closed_at_exit(client, stack)


def open_sender(settings: Settings, stack: AsyncExitStack) -> HttpWebhookSender:
    private = settings.webhook_allow_private
    plain = private or settings.env is not Environment.PRODUCTION
    return _closed_at_exit(HttpWebhookSender(TargetResolver(allow_private=private, allow_http=plain)), stack)


async def open_recognizer(settings: Settings, stack: AsyncExitStack) -> Recognizer:
    if settings.ocr == "null":
        return NullRecognizer()
    recognizer = ProcessRecognizer(
        children=settings.lanes.get(Lane.OCR, 1),
        engine=settings.ocr,
        memory_bytes=settings.ocr_memory_bytes,
        page_timeout=settings.ocr_page_timeout,
        max_pages=settings.max_pages,
        tessdata=settings.tessdata,
    )
    if settings.role is not Role.WEB:
        stack.push_async_callback(recognizer.close)
        try:
            await recognizer.start()
        except (RuntimeError, OSError) as error:
            # Other lanes can work, and a gate says what is wrong, until it is mended.
            log.warning("recognition_not_started", reason=str(error))
    return recognizer


def open_renderer(settings: Settings, stack: AsyncExitStack) -> Renderer:
    """It starts no process until it is asked: in a worker it costs nothing."""
    if settings.ocr == "null":
        return NullRenderer()
    renderer = ProcessRenderer(
        children=settings.renderers,
        memory_bytes=settings.ocr_memory_bytes,
        timeout=settings.ocr_page_timeout,
        max_pages=settings.max_pages,
    )
    return _closed_at_exit(renderer, stack)


def open_caller(function: str, stack: AsyncExitStack, *, children: int, cpu_seconds: float) -> BoundedCaller:
    """It starts no process until it is asked."""
    return _closed_at_exit(ProcessCaller(function, children=children, cpu=timedelta(seconds=cpu_seconds)), stack)


def _engine(settings: Settings, stack: AsyncExitStack, *, pool_size: int, name: str) -> PostgresEngine:
    engine = PostgresEngine(
        settings.database_url.get_secret_value(), pool_size=pool_size, name=name, pooled=settings.pooled
    )
    stack.push_async_callback(engine.close)
    return engine
