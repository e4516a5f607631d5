"""Logs and metrics. No tenant ever becomes a label, and no document's content a log line."""

import io
import logging
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import TextIO, cast

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from structlog.typing import EventDict
from typing_extensions import override

FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SLOW = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindMetrics:
    """The series of one job kind, looked up once: the look-up costs several times the count."""

    pickup_seconds: Histogram
    job_seconds: Histogram
    finished: Mapping[str, Counter]
    """By outcome."""


class _FinishedCounters(dict[str, Counter]):
    def __init__(self, counter: Counter, *, kind: str) -> None:
        self._counter = counter
        self._kind = kind

    def __missing__(self, outcome: str) -> Counter:
        return self.setdefault(outcome, self._counter.labels(self._kind, outcome))


class Metrics:
    """The metrics of this process, by the names of the API's contract, one object for all parts."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.finished = Counter(
            "daira_jobs_finished_total", "Attempts that ended, by outcome", ["kind", "outcome"], registry=registry
        )
        self.job_seconds = Histogram("daira_job_seconds", "A handler's run", ["kind"], buckets=SLOW, registry=registry)
        self.pickup_seconds = Histogram(
            "daira_pickup_seconds", "From due to the handler's start", ["kind"], buckets=FAST, registry=registry
        )
        self.claims = Counter("daira_claims_total", "Doorbells answered, by outcome", ["outcome"], registry=registry)
        self.fenced_writes = Counter(
            "daira_fenced_writes_total", "Writes refused because the lease was lost", registry=registry
        )
        self.leases_lost = Counter(
            "daira_leases_lost_total", "Attempts that came to nothing because the lease was lost", registry=registry
        )
        self.doorbells = Counter("daira_doorbells_total", "Doorbells, by event", ["event"], registry=registry)
        self.sweep_rung = Counter("daira_sweep_rung_total", "Doorbells rung by the sweeper", registry=registry)
        self.scout_missed = Counter(
            "daira_scout_missed_total", "Jobs that only the full pass found: the scout is blind", registry=registry
        )
        self.pages_read = Counter("daira_pages_read_total", "Pages read, by source", ["source"], registry=registry)
        self.purged = Counter(
            "daira_purged_total",
            "What purges removed: document, job (beyond retention), orphan (blob without one), unfinished (upload)",
            ["what"],
            registry=registry,
        )
        self.purge_expected = Counter(
            "daira_purge_expected_total",
            "What purges found to be removed: more than was purged is what failed, or was left in doubt",
            ["what"],
            registry=registry,
        )
        self.blob_clock_skew = Gauge(
            "daira_blob_clock_skew_seconds",
            "How far this process's clock was ahead of the blob store's at the last purge",
            registry=registry,
        )
        self.webhooks_disabled = Counter(
            "daira_webhooks_disabled_total", "Webhooks that Daira has disabled: nobody answered", registry=registry
        )
        self.gate_closed = Gauge(
            "daira_gate_closed",
            "1 while the worker puts jobs back because this dependency is out of order, else 0",
            ["gate"],
            registry=registry,
        )
        self.event_streams = Gauge("daira_event_streams", "Event streams that are open", registry=registry)
        self.llm_up = Gauge(
            "daira_llm_up", "1 while the worker's language model can be used, or none is configured", registry=registry
        )
        self.llm_up.set(1)
        self.llm_tokens = Counter(
            "daira_llm_tokens_total",
            "Tokens, as the server counts them or else estimated",
            ["direction"],
            registry=registry,
        )
        self.llm_seconds = Histogram(
            "daira_llm_seconds", "Questions to a language model", ["outcome"], buckets=SLOW, registry=registry
        )
        self.http_seconds = Histogram(
            "daira_http_request_seconds",
            "Requests",
            ["route", "method", "status"],
            buckets=FAST,
            registry=registry,
        )
        self._loop_age = Gauge(
            "daira_loop_last_success_seconds", "Since a background loop last succeeded", ["loop"], registry=registry
        )
        self._kinds: dict[str, KindMetrics] = {}
        self._succeeded: dict[str, float] = {}
        self._silent_after: dict[str, float] = {}

    def begin(self, *, kinds: Iterable[str], outcomes: Iterable[str]) -> None:
        """Tell of what may come as 0: a counter that is first seen at 1 has not risen, and raises no alarm."""
        for kind, outcome in product(kinds, outcomes):
            self.finished.labels(kind, outcome)
        for event in ("rung", "failed", "received", "dropped"):
            self.doorbells.labels(event)
        for direction in ("input", "output"):
            self.llm_tokens.labels(direction)
        for what in ("document", "job", "orphan", "unfinished", "idempotency_key"):
            self.purged.labels(what)
            self.purge_expected.labels(what)

    def of_kind(self, kind: str) -> KindMetrics:
        if kind not in self._kinds:
            self._kinds[kind] = KindMetrics(
                pickup_seconds=self.pickup_seconds.labels(kind),
                job_seconds=self.job_seconds.labels(kind),
                finished=_FinishedCounters(self.finished, kind=kind),
            )
        return self._kinds[kind]

    def loop_started(self, loop: str, *, silent_after: float) -> None:
        """`silent_after` (seconds): without a success for longer, the loop counts as dead."""
        self._succeeded.setdefault(loop, time.monotonic())
        self._silent_after[loop] = silent_after
        self._loop_age.labels(loop).set_function(lambda: self.loop_age(loop))

    def loop_succeeded(self, loop: str) -> None:
        self._succeeded[loop] = time.monotonic()

    def loop_age(self, loop: str) -> float:
        """Seconds."""
        return time.monotonic() - self._succeeded[loop]

    def silent_loops(self) -> dict[str, float]:
        """Their age in seconds."""
        ages = {loop: self.loop_age(loop) for loop in sorted(self._succeeded)}
        return {loop: age for loop, age in ages.items() if age > self._silent_after[loop]}

    def exposition(self) -> bytes:
        return generate_latest(self.registry)


class RepeatedEvents:
    """Limits log lines of events that come again and again, such as during an outage, to one a minute."""

    EVERY = 60.0
    """Seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged_at: dict[str, float] = {}

    def due(self, event: str) -> bool:
        """Return True if this event is to be logged now, and note that it was."""
        now = self._clock()
        if now - self._logged_at.get(event, -math.inf) < self.EVERY:
            return False
        self._logged_at[event] = now
        return True


_bound: ContextVar[Mapping[str, object]] = ContextVar("bound", default=MappingProxyType({}))


def bind_events(**fields: object) -> None:
    """Every event of this task, and of those that it starts, has these fields from now on.

    In one context variable, where structlog takes one for each field: this is done for every job.
    """
    _bound.set(fields)


def _with_bound(_logger: object, _method: str, event: EventDict) -> EventDict:
    return {**_bound.get(), **event}


class _StandardError(io.TextIOBase):
    """Standard error as it is when a line is written: loggers are kept, and may outlive the stream they began with.

    A line that can't be written, because the log's reader has ended or its disk is full, is lost. An error here would
    end the loop, heartbeat or stop that only wanted to tell of something.
    """

    @override
    def write(self, text: str, /) -> int:
        with suppress(OSError, ValueError):  # ValueError: it is closed
            sys.stderr.write(text)
        return len(text)

    @override
    def flush(self) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()


_STDERR = cast(TextIO, _StandardError())


def logs_for_people(log_format: str) -> bool:
    """True for `text`, and for `auto` on a terminal."""
    return log_format == "text" or (log_format == "auto" and sys.stderr.isatty())


def set_up_logging(*, level: str, human: bool, stream: TextIO = _STDERR) -> None:
    """One line an event: JSON, or coloured for a terminal."""
    render = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()) if human else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _with_bound,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=stream, force=True)
