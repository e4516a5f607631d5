"""The backlog, measured on the table. The queue's depth would count bells, not work."""

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from app.domain.errors import Unavailable
from app.domain.lanes import LANE_OF_KIND
from app.ports.sweeps import Backlog, Sweeps
from app.telemetry import Metrics


async def exposition(metrics: Metrics, sweeps: Sweeps) -> bytes:
    """Metrics of the process, and of the table unless the database is away: their absence is then the signal."""
    try:
        backlog = await sweeps.backlog()
    except Unavailable:
        return metrics.exposition()
    return metrics.exposition() + _of_table(backlog)


def _of_table(backlog: list[Backlog]) -> bytes:
    registry = CollectorRegistry()
    figures = {
        "due": Gauge("daira_jobs_due", "Queued and due", ["kind"], registry=registry),
        "scheduled": Gauge("daira_jobs_scheduled", "Queued for later", ["kind"], registry=registry),
        "running": Gauge("daira_jobs_running", "Claimed, under a lease", ["kind"], registry=registry),
        "stuck": Gauge("daira_jobs_stuck", "Claimed, and the lease is over", ["kind"], registry=registry),
    }
    oldest = Gauge("daira_oldest_due_seconds", "Age of the job that is due longest", ["kind"], registry=registry)
    # Kinds without work are told as 0, or an alert's series would vanish with the work.
    for kind in LANE_OF_KIND:
        for figure in (*figures.values(), oldest):
            figure.labels(kind).set(0)
    for row in backlog:
        for name, figure in figures.items():
            figure.labels(row.kind).set(getattr(row, name))
        oldest.labels(row.kind).set(row.oldest_due.total_seconds())
    return generate_latest(registry)
