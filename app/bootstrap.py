"""The composition root: settings in, a running service's parts out, each built from adapters that `wiring` chose."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from uuid import UUID, uuid4

from app import temp_copies
from app.adapters.webhook.sender import HttpWebhookSender
from app.domain.documents import blob_key
from app.domain.doorbells import LANE_OF_KIND, Lane
from app.domain.errors import NotFound
from app.domain.ids import DocumentId, TenantId
from app.domain.jobs import AttemptOutcome
from app.domain.tenants import Allowance
from app.handlers.llm.ask import AskHandler
from app.handlers.llm.classify import ClassifyHandler
from app.handlers.llm.conversation import LlmBudget
from app.handlers.llm.extract import ExtractHandler
from app.handlers.llm.summarize import SummarizeHandler
from app.handlers.ocr import OcrHandler
from app.handlers.selftest import SelftestHandler
from app.handlers.webhook import WebhookHandler
from app.handlers.webhook_slots import EndpointSlots
from app.ports.blobs import Blobs
from app.ports.database import Database
from app.ports.doorbell import Doorbell
from app.ports.leases import Handler, Sweeps
from app.ports.llm import Llm
from app.ports.reading import Recognizer
from app.services.backlog_cache import BacklogCache
from app.services.bulk_jobs import BulkJobs
from app.services.clocks import ClockComparer
from app.services.documents import DocumentService
from app.services.erasure import TenantEraser
from app.services.events.open import EventService
from app.services.events.watcher import ChangePollers
from app.services.execution import Execution
from app.services.fair_database import FairDatabase
from app.services.fair_queue import FairSemaphore
from app.services.gates import Gate, Gates, Probe
from app.services.jobs import JobService
from app.services.limits import RateLimiter
from app.services.loop_shares import LoopShares
from app.services.maintenance import Maintenance
from app.services.outputs import OutputService
from app.services.purging import Purger
from app.services.renditions import RenditionService
from app.services.ringing import Ringer
from app.services.search import SearchService, search_turns
from app.services.settling import SettleBatcher
from app.services.sweeping import Sweeper
from app.services.tenants import TenantService
from app.services.uploads import UploadService
from app.services.usage import UsageService
from app.services.webhooks import WebhookService
from app.settings import Role, Settings
from app.telemetry import Metrics
from app.tracing import NullSpans, Spans
from app.web import job_checks
from app.web.job_checks import JobChecks
from app.wiring import (
    Store,
    open_blobs,
    open_caller,
    open_doorbells,
    open_llm,
    open_recognizer,
    open_renderer,
    open_sender,
    open_store,
    open_tokens,
)
from app.worker.consumer import Consumer
from app.worker.heartbeat import Heartbeat
from app.worker.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    settings: Settings
    metrics: Metrics
    tenants: TenantService
    erasure: TenantEraser
    purging: Purger
    rates: RateLimiter
    shares: LoopShares
    checks: JobChecks
    uploads: UploadService
    documents: DocumentService
    outputs: OutputService
    renditions: RenditionService
    jobs: JobService
    bulk: BulkJobs
    search: SearchService
    events: EventService
    webhooks: WebhookService
    usage: UsageService
    sweeping: Sweeper
    sweeps: Sweeps
    looks: BacklogCache
    pings: Mapping[str, Callable[[], Awaitable[object]]]
    """By what they reach; each raises when it can't."""
    probes: Mapping[str, Probe]
    """By the names of gates: what jobs use, tried as they use it."""
    gates: Gates
    """The worker's; there are none in the web role."""
    stopping: asyncio.Event
    """To be set when the process is told to stop."""
    worker: Worker | None
    """Not started yet; None in the web role."""


@asynccontextmanager
async def open_runtime(
    settings: Settings,
    metrics: Metrics,
    *,
    handlers: Sequence[Handler] | None = None,
    llm: Llm | None = None,
    spans: Spans | None = None,
) -> AsyncIterator[Runtime]:
    """Everything that the role needs; leaving closes it in the opposite order. `handlers` stand in for Daira's own."""
    async with AsyncExitStack() as stack:
        store = await open_store(settings, stack)
        # For requests. A worker's jobs have shares of their own.
        shared = FairDatabase(store.database, pool_size=settings.pool_size)
        doorbells = await open_doorbells(settings, stack, metrics)
        blobs = await open_blobs(settings, stack)
        recognizer = await open_recognizer(settings, stack)
        llm = llm or open_llm(settings, stack, metrics)
        ringing = Ringer(doorbells, metrics)
        sender = open_sender(settings, stack)
        temp_copies.remove_abandoned()
        stopping = asyncio.Event()
        watching = ChangePollers(store.database)
        stack.push_async_callback(watching.close)
        sweeping = Sweeper(sweeps=store.sweeps, ringing=ringing, metrics=metrics)
        documents = DocumentService(database=shared, blobs=blobs)
        usage = UsageService(database=shared)
        search = SearchService(database=shared, turns=search_turns(settings.pool_size))
        events = EventService(database=shared, watching=watching, stopping=stopping, most=settings.max_event_streams)
        looks = BacklogCache.at(store.sweeps)
        stack.push_async_callback(looks.close)
        metrics.begin(kinds=LANE_OF_KIND, outcomes=AttemptOutcome)
        metrics.event_streams.set_function(lambda: events.open_streams)
        purging = Purger(
            database=store.database,
            documents=documents,
            blobs=blobs,
            sweeps=store.sweeps,
            clocks=ClockComparer(sweeps=store.sweeps, blobs=blobs),
            metrics=metrics,
            retention=settings.retention,
            job_retention=settings.job_retention,
        )
        probes = _probes(store=store, blobs=blobs, recognizer=recognizer, sender=sender, llm=llm)
        gates = _gates(probes, metrics) if settings.role is not Role.WEB else Gates()
        stack.push_async_callback(gates.end)
        if not recognizer.is_usable:
            gates.shut("recognition", "nothing can be read here: no reader has started, or there is no language data")
        jobs = JobService(
            database=shared,
            ringing=ringing,
            languages=recognizer.languages,
            llm=llm is not None,
            watching=watching,
            stopping=stopping,
        )
        yield Runtime(
            settings=settings,
            metrics=metrics,
            tenants=TenantService(
                database=shared,
                sweeps=store.sweeps,
                allowance=_allowance(settings),
                tokens=open_tokens(settings, stack),
            ),
            erasure=TenantEraser(database=store.database, blobs=blobs),
            purging=purging,
            rates=RateLimiter(),
            shares=LoopShares(max_open=settings.max_open_requests),
            checks=JobChecks(
                open_caller(job_checks.FUNCTION, stack, children=job_checks.AT_ONCE, cpu_seconds=job_checks.CPU_SECONDS)
            ),
            uploads=UploadService(
                database=shared,
                blobs=blobs,
                ringing=ringing,
                languages=recognizer.languages,
                llm=llm is not None,
            ),
            documents=documents,
            outputs=OutputService(database=shared, blobs=blobs),
            renditions=RenditionService(
                database=shared,
                blobs=blobs,
                renderer=open_renderer(settings, stack),
                turns=FairSemaphore(at_once=settings.renderers),
            ),
            jobs=jobs,
            bulk=BulkJobs(database=store.database, sweeps=store.sweeps, jobs=jobs),
            search=search,
            events=events,
            webhooks=WebhookService(database=shared, sender=sender, ringing=ringing),
            usage=usage,
            stopping=stopping,
            sweeping=sweeping,
            sweeps=store.sweeps,
            looks=looks,
            pings={"database": store.ping, "queue": doorbells[Lane.OCR].ping, "blobs": blobs.ping},
            probes=probes,
            gates=gates,
            worker=None
            if settings.role is Role.WEB
            else _worker(
                settings,
                store=store,
                doorbells=doorbells,
                ringing=ringing,
                sweeping=sweeping,
                purging=purging,
                upkeep=Maintenance(sweeps=store.sweeps, search=search, usage=usage),
                metrics=metrics,
                spans=spans or NullSpans(),
                hurry=watching.hurry,
                gates=gates,
                handlers=handlers
                or [
                    OcrHandler(
                        database=store.database,
                        blobs=blobs,
                        recognizer=recognizer,
                        metrics=metrics,
                        longest=settings.document_timeout,
                    ),
                    SelftestHandler(blobs=blobs),
                    WebhookHandler(
                        database=store.database,
                        sender=sender,
                        shares=EndpointSlots(slots=settings.lanes.get(Lane.WEBHOOK, 1)),
                        disabled=metrics.webhooks_disabled.inc,
                    ),
                    *_llm_handlers(settings, store.database, llm),
                ],
            ),
        )


NO_BLOB = blob_key(TenantId("daira"), DocumentId(UUID(int=0)))
"""A blob that never exists: only who may read blobs is told so."""


def _probes(
    *, store: Store, blobs: Blobs, recognizer: Recognizer, sender: HttpWebhookSender, llm: Llm | None
) -> dict[str, Probe]:
    async def read_a_blob() -> None:
        await blobs.ping()
        with suppress(NotFound):
            async for _ in blobs.get(NO_BLOB):
                pass

    probes: dict[str, Probe] = {
        "database": store.ping,
        "blobs": read_a_blob,
        "temp": lambda: asyncio.to_thread(temp_copies.probe),
        "recognition": recognizer.probe,
        "languages": recognizer.probe_languages,
        "receivers": sender.probe,
    }
    return probes if llm is None else probes | {"llm": llm.probe}


NEEDS: Mapping[Lane, Sequence[str]] = {
    Lane.OCR: ("database", "blobs", "temp", "recognition", "languages"),
    Lane.LLM: ("database", "llm"),
    Lane.WEBHOOK: ("database", "receivers"),
}
"""Names of the gates that a lane's jobs pass."""

PASSABLE = frozenset({"database", "languages", "receivers"})
"""Gates with which a lane goes on: a consumer waits for the database itself, and other jobs may not need the rest."""


def _gates(probes: Mapping[str, Probe], metrics: Metrics) -> Gates:
    gates = {name: Gate(name, probe, metrics=metrics, stops=name not in PASSABLE) for name, probe in probes.items()}
    if "llm" in gates:
        metrics.llm_up.set_function(lambda: gates["llm"].reason is None)
    return Gates(of_lane={lane: [gates[name] for name in names if name in gates] for lane, names in NEEDS.items()})


def _allowance(settings: Settings) -> Allowance:
    return Allowance(
        max_running=None,
        max_queued=settings.max_queued_jobs,
        max_upload_bytes=settings.max_upload_bytes,
        requests_per_minute=settings.requests_per_minute,
    )


def _llm_handlers(settings: Settings, database: Database, llm: Llm | None) -> list[Handler]:
    """Without a model there are none: such a job then waits for a worker that has one."""
    if llm is None:
        return []
    budget = LlmBudget(calls=settings.llm_max_calls, tokens=settings.llm_max_tokens)
    return [
        SummarizeHandler(database=database, llm=llm, budget=budget),
        ExtractHandler(database=database, llm=llm, budget=budget),
        ClassifyHandler(database=database, llm=llm, budget=budget),
        AskHandler(database=database, llm=llm, budget=budget),
    ]


def _worker(
    settings: Settings,
    *,
    store: Store,
    doorbells: Mapping[Lane, Doorbell],
    ringing: Ringer,
    sweeping: Sweeper,
    purging: Purger,
    upkeep: Maintenance,
    metrics: Metrics,
    spans: Spans,
    hurry: Callable[[TenantId], object],
    gates: Gates,
    handlers: Sequence[Handler],
) -> Worker:
    # Claims, attempts and the log have it: of two workers on a host, which was it?
    name = f"{socket.gethostname()}-{uuid4().hex[:8]}"
    execution = Execution(
        database=store.database,
        leases=store.leases,
        settling=SettleBatcher(store.leases),
        handlers={handler.kind: handler for handler in handlers},
        ringing=ringing,
        refill=sweeping.refill,
        metrics=metrics,
        worker=name,
        lease=settings.lease,
        hurry=hurry,
        spans=spans,
        gates=gates,
    )
    heart = Heartbeat(store.open_leases, lease=settings.lease)
    consumers = [
        Consumer(
            lane=lane,
            kinds=kinds,
            # As many again for documents that need no recognition.
            slots=2 * slots if lane is Lane.OCR else slots,
            recognition=slots if lane is Lane.OCR else None,
            doorbell=doorbells[lane],
            execution=execution,
            heart=heart,
            sweeping=sweeping,
            sweep_every=settings.sweep_every,
            metrics=metrics,
        )
        for lane, slots in settings.lanes.items()
        if (kinds := frozenset(kind for kind in execution.handlers if LANE_OF_KIND.get(kind) is lane))
    ]
    return Worker(
        name=name,
        consumers=consumers,
        heart=heart,
        sweeping=sweeping,
        sweep_every=settings.sweep_every,
        purging=purging,
        purge_every=settings.purge_every,
        upkeep=upkeep,
        grace=settings.grace,
        metrics=metrics,
    )
