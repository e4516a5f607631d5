"""`/metrics` tells nothing of a tenant, and answers while the database is away."""

from collections.abc import Iterator
from typing import NoReturn

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from app.domain.doorbells import LANE_OF_KIND
from app.domain.errors import Unavailable
from app.services.backlog_cache import BacklogCache, SharedQuery
from app.web.metrics import exposition
from tests.unit.served import served

LABELS = {
    "direction",
    "event",
    "gate",
    "kind",
    "le",
    "loop",
    "method",
    "outcome",
    "route",
    "source",
    "status",
    "table",
    "what",
}


async def test_what_may_rise_is_told_as_0_before_it_does() -> None:
    """A counter that is first seen at 1 has not risen, as Prometheus sees it: the first fault would raise no alarm."""
    async with served() as web:
        told = (await web.client.get("/metrics")).text
    counters = {family.name: family for family in _families(told) if family.type == "counter"}
    expired = [sample for sample in counters["daira_jobs_finished"].samples if sample.labels["outcome"] == "expired"]
    assert {sample.labels["kind"] for sample in expired} == set(LANE_OF_KIND)
    names = ["jobs_finished", "doorbells", "purged", "fenced_writes", "leases_lost", "scout_missed"]
    for name in (f"daira_{name}" for name in names):
        assert {sample.value for sample in counters[name].samples if sample.name.endswith("_total")} == {0}


async def test_without_the_database_the_process_still_tells_of_itself_and_that_it_saw_nothing() -> None:
    async with served() as web:
        looks = BacklogCache(backlog=SharedQuery(_away), wear=SharedQuery(_away), clock=SharedQuery(_away))
        told = (await exposition(web.runtime.metrics, looks)).decode()
    assert "daira_backlog_up 0.0" in told
    assert "daira_fenced_writes_total 0.0" in told
    assert "daira_jobs_due" not in told


async def test_no_tenant_is_a_label() -> None:
    async with served() as web:
        await web.read(await web.uploaded())
        told = (await web.client.get("/metrics")).text
    labels = {name for family in _families(told) for sample in family.samples for name in sample.labels}
    assert labels <= LABELS
    assert "acme" not in told


async def _away() -> NoReturn:
    raise Unavailable("the database can't be reached")


def _families(told: str) -> Iterator[Metric]:
    yield from text_string_to_metric_families(told)
