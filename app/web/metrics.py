"""The backlog's metrics, measured on the table of jobs. The queue's depth would count doorbells, not work."""

from collections.abc import Mapping
from contextlib import suppress

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from app.domain.doorbells import LANE_OF_KIND
from app.domain.errors import Unavailable
from app.ports.leases import Backlog, CleanupBlockers
from app.services.backlog_cache import BacklogCache
from app.services.clocks import ClockReading
from app.telemetry import Metrics


async def exposition(metrics: Metrics, looks: BacklogCache | None) -> bytes:
    """Return the metrics of process and table. While the database is away, the table's are left out, not set to 0.

    `looks` is None while the service starts.
    """
    registry = CollectorRegistry()
    up = Gauge("daira_backlog_up", "1 where the table could be looked at, else 0", registry=registry)
    up.set(0)
    with suppress(Unavailable):
        if looks is not None:
            _backlog(await looks.backlog(), registry)
            _wear(await looks.wear(), registry)
            _clock(await looks.clock(), registry)
            up.set(1)
    return metrics.exposition() + generate_latest(registry)


def _backlog(backlog: list[Backlog], registry: CollectorRegistry) -> None:
    figures = {
        "due": Gauge("daira_jobs_due", "Queued and due", ["kind"], registry=registry),
        "scheduled": Gauge("daira_jobs_scheduled", "Queued for later", ["kind"], registry=registry),
        "running": Gauge("daira_jobs_running", "Claimed, under a lease", ["kind"], registry=registry),
        "stuck": Gauge("daira_jobs_stuck", "Claimed, and the lease is over", ["kind"], registry=registry),
    }
    oldest = Gauge("daira_oldest_due_seconds", "Age of the job that is due longest", ["kind"], registry=registry)
    # Kinds without work are reported as 0, or an alert's series would vanish with the work.
    for kind in LANE_OF_KIND:
        for figure in (*figures.values(), oldest):
            figure.labels(kind).set(0)
    for row in backlog:
        for name, figure in figures.items():
            figure.labels(row.kind).set(getattr(row, name))
        oldest.labels(row.kind).set(row.oldest_due.total_seconds())


def _wear(wear: CleanupBlockers, registry: CollectorRegistry) -> None:
    _rows("daira_rows_dead", "Rows that vacuum has not removed yet", wear.dead, registry)
    _rows("daira_rows_live", "Rows, as the server estimates them", wear.live, registry)
    oldest = Gauge(
        "daira_oldest_snapshot_seconds", "Age of the oldest snapshot that this login is shown", registry=registry
    )
    oldest.set(wear.oldest_snapshot.total_seconds())
    transactions = Gauge(
        "daira_oldest_transactions", "Transactions since the oldest began that vacuum waits for", registry=registry
    )
    transactions.set(wear.oldest_transactions)


def _clock(reading: ClockReading, registry: CollectorRegistry) -> None:
    skew = Gauge(
        "daira_clock_skew_seconds", "How far this process's clock is ahead of the database's", registry=registry
    )
    skew.set(reading.ahead.total_seconds())


def _rows(name: str, documentation: str, rows: Mapping[str, int], registry: CollectorRegistry) -> None:
    figure = Gauge(name, documentation, ["table"], registry=registry)
    for table, count in rows.items():
        figure.labels(table).set(count)
