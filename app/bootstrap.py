"""The composition root: settings in, a running service's parts out. The one place that knows concrete classes."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from app.adapters.filesystem.blobs import FileBlobs
from app.adapters.memory.blobs import MemoryBlobs
from app.adapters.memory.database import MemoryDatabase
from app.adapters.memory.doorbell import MemoryDoorbell
from app.adapters.memory.leases import MemoryLeases
from app.adapters.memory.store import MemoryStore
from app.adapters.memory.sweeps import MemorySweeps
from app.adapters.ocr.null import NullRecognizer
from app.adapters.ocr.recognizer import ProcessRecognizer
from app.adapters.postgres.database import PostgresDatabase
from app.adapters.postgres.doorbell import PostgresDoorbell
from app.adapters.postgres.engine import Engine
from app.adapters.postgres.leases import PostgresLeases
from app.adapters.postgres.sweeps import PostgresSweeps
from app.domain.lanes import LANE_OF_KIND, Lane
from app.handlers.ocr import OcrHandler
from app.ports.blobs import Blobs
from app.ports.database import Database
from app.ports.doorbell import Doorbell
from app.ports.handlers import Handler
from app.ports.leases import Leases
from app.ports.ocr import Recognizer
from app.ports.sweeps import Sweeps
from app.services.documents import Documents
from app.services.execution import Execution
from app.services.jobs import Jobs
from app.services.ringing import Ringing
from app.services.sweeping import Sweeping
from app.services.tenants import Tenants
from app.services.uploads import Uploads
from app.settings import Role, Settings
from app.telemetry import Metrics
from app.worker.consumer import Consumer
from app.worker.heart import Heart, OpenLeases, shared
from app.worker.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One way of keeping state, seen through its ports."""

    database: Database
    leases: Leases
    sweeps: Sweeps
    open_leases: OpenLeases
    ping: Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    settings: Settings
    metrics: Metrics
    tenants: Tenants
    uploads: Uploads
    documents: Documents
    jobs: Jobs
    sweeping: Sweeping
    sweeps: Sweeps
    pings: Mapping[str, Callable[[], Awaitable[object]]]
    """By what they reach; each raises when it can't."""
    worker: Worker | None
    """Not started yet; None in the web role."""


@asynccontextmanager
async def open_runtime(
    settings: Settings, metrics: Metrics, *, handlers: Sequence[Handler] | None = None
) -> AsyncIterator[Runtime]:
    """Everything that the role needs; leaving closes it in the opposite order. `handlers` stand in for Daira's own."""
    async with AsyncExitStack() as stack:
        store = await _open_store(settings, stack)
        doorbells = _open_doorbells(settings, stack, metrics)
        blobs = _open_blobs(settings)
        recognizer = await _open_recognizer(settings, stack)
        ringing = Ringing(doorbells, metrics)
        sweeping = Sweeping(sweeps=store.sweeps, ringing=ringing, metrics=metrics)
        yield Runtime(
            settings=settings,
            metrics=metrics,
            tenants=Tenants(database=store.database, sweeps=store.sweeps),
            uploads=Uploads(
                database=store.database,
                blobs=blobs,
                ringing=ringing,
                max_bytes=settings.max_upload_bytes,
                languages=recognizer.languages,
            ),
            documents=Documents(database=store.database, blobs=blobs),
            jobs=Jobs(database=store.database, ringing=ringing, languages=recognizer.languages),
            sweeping=sweeping,
            sweeps=store.sweeps,
            pings={"database": store.ping, "queue": doorbells[Lane.OCR].ping, "blobs": blobs.ping},
            worker=None
            if settings.role is Role.WEB
            else _worker(
                settings,
                store=store,
                doorbells=doorbells,
                ringing=ringing,
                sweeping=sweeping,
                metrics=metrics,
                handlers=handlers or [OcrHandler(database=store.database, blobs=blobs, recognizer=recognizer)],
            ),
        )


def _worker(
    settings: Settings,
    *,
    store: Store,
    doorbells: Mapping[Lane, Doorbell],
    ringing: Ringing,
    sweeping: Sweeping,
    metrics: Metrics,
    handlers: Sequence[Handler],
) -> Worker:
    execution = Execution(
        database=store.database,
        leases=store.leases,
        handlers={handler.kind: handler for handler in handlers},
        ringing=ringing,
        metrics=metrics,
        worker=f"{socket.gethostname()}-{uuid4().hex[:8]}",
        lease=settings.lease,
    )
    heart = Heart(store.open_leases, lease=settings.lease)
    consumers = [
        Consumer(
            lane=lane,
            kinds=kinds,
            slots=slots,
            doorbell=doorbells[lane],
            execution=execution,
            heart=heart,
            early_pass=sweeping.sweep,
            sweep_every=settings.sweep_every,
            metrics=metrics,
        )
        for lane, slots in settings.lanes.items()
        if (kinds := frozenset(kind for kind, its_lane in LANE_OF_KIND.items() if its_lane is lane))
    ]
    return Worker(
        consumers=consumers,
        heart=heart,
        sweeping=sweeping,
        sweep_every=settings.sweep_every,
        grace=settings.grace,
        metrics=metrics,
    )


async def _open_store(settings: Settings, stack: AsyncExitStack) -> Store:
    if settings.memory_store:
        memory = MemoryStore()
        leases = MemoryLeases(memory)

        async def nothing_to_reach() -> None: ...

        return Store(
            database=MemoryDatabase(memory),
            leases=leases,
            sweeps=MemorySweeps(memory),
            open_leases=lambda: shared(leases),
            ping=nothing_to_reach,
        )
    url = settings.database_url.get_secret_value()
    # Handlers that hold a connection for their results can't keep a claim or a settle waiting.
    tenants = _engine(settings, stack, pool_size=settings.pool_size, name=settings.role)
    claims = _engine(settings, stack, pool_size=4, name="claims")

    @asynccontextmanager
    async def own_leases() -> AsyncIterator[Leases]:
        engine = Engine(url, pool_size=1, name="heart", pooled=settings.pooled)
        try:
            yield PostgresLeases(engine)
        finally:
            await engine.close()

    return Store(
        database=PostgresDatabase(tenants),
        leases=PostgresLeases(claims),
        sweeps=PostgresSweeps(claims),
        open_leases=own_leases,
        ping=lambda: tenants.call("select 1"),
    )


def _open_doorbells(settings: Settings, stack: AsyncExitStack, metrics: Metrics) -> dict[Lane, Doorbell]:
    dropped = metrics.doorbells.labels("dropped").inc
    if settings.memory_queue:
        return {lane: MemoryDoorbell() for lane in Lane}
    own = settings.queue_url.get_secret_value()
    url = own or settings.database_url.get_secret_value()
    pooled = settings.pooled and not own
    engine = Engine(url, pool_size=len(Lane) + 2, name="doorbells", pooled=pooled)
    stack.push_async_callback(engine.close)
    listen_url = settings.listen_url.get_secret_value() if pooled else url
    doorbells: dict[Lane, Doorbell] = {}
    for lane in Lane:
        doorbell = PostgresDoorbell(engine, lane=lane, listen_url=listen_url, dropped=dropped)
        stack.push_async_callback(doorbell.close)
        doorbells[lane] = doorbell
    return doorbells


def _open_blobs(settings: Settings) -> Blobs:
    if settings.memory_blobs:
        return MemoryBlobs()
    if not settings.blob_url:
        return FileBlobs(settings.data_dir / "blobs")
    return FileBlobs(Path(unquote(urlsplit(settings.blob_url).path)))


async def _open_recognizer(settings: Settings, stack: AsyncExitStack) -> Recognizer:
    if settings.ocr == "null":
        return NullRecognizer()
    recognizer = ProcessRecognizer(
        children=settings.lanes.get(Lane.OCR, 1),
        memory_bytes=settings.ocr_memory_bytes,
        page_timeout=settings.ocr_page_timeout,
        max_pages=settings.max_pages,
        tessdata=settings.tessdata,
    )
    if settings.role is not Role.WEB:
        stack.push_async_callback(recognizer.close)
        await recognizer.start()
    return recognizer


def _engine(settings: Settings, stack: AsyncExitStack, *, pool_size: int, name: str) -> Engine:
    engine = Engine(settings.database_url.get_secret_value(), pool_size=pool_size, name=name, pooled=settings.pooled)
    stack.push_async_callback(engine.close)
    return engine
