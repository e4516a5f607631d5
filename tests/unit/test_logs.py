"""What a log line carries besides its event."""

import errno
import io
import json
import sys
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs
from typing_extensions import override

from app.domain.doorbells import Lane, Ring
from app.domain.ids import JobId, TenantId, uuid7
from app.services.ringing import Ringer
from app.telemetry import Metrics, RepeatedEvents, bind_events, set_up_logging
from tests.unit.bench import Deaf


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream, before = io.StringIO(), structlog.get_config()
    set_up_logging(level="info", human=False, stream=stream)
    yield stream
    structlog.configure(**before)


async def test_a_line_names_the_request_and_the_job_that_it_belongs_to(lines: io.StringIO) -> None:
    log = structlog.get_logger()
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        bind_events(tenant_id="acme", job_id="j1", attempt=2, kind="ocr")
        log.info("job_settled", outcome="done")
    line = json.loads(lines.getvalue())
    assert line.pop("timestamp")
    assert line == {
        "event": "job_settled",
        "level": "info",
        "request_id": "r1",
        "tenant_id": "acme",
        "job_id": "j1",
        "attempt": 2,
        "kind": "ocr",
        "outcome": "done",
    }


async def test_what_the_event_says_itself_wins(lines: io.StringIO) -> None:
    bind_events(kind="ocr")
    structlog.get_logger().info("event", kind="other")
    assert json.loads(lines.getvalue())["kind"] == "other"


def test_an_event_that_repeats_is_logged_once_a_minute_and_each_on_its_own() -> None:
    now = 0.0
    repeated = RepeatedEvents(lambda: now)
    logged: list[tuple[str, float]] = []
    for now in range(180):
        logged += [(event, now) for event in ("ocr", "llm") if repeated.due(event)]
    assert logged == [(event, at) for at in (0, 60, 120) for event in ("ocr", "llm")]


async def test_an_outage_of_the_queue_is_one_line_however_many_rings_fail() -> None:
    ringer = Ringer(dict.fromkeys(Lane, Deaf()), Metrics())
    with capture_logs() as logs:
        for _ in range(100):
            await ringer.ring([("ocr", Ring(TenantId("acme"), JobId(uuid7())))])
    assert [line["event"] for line in logs] == ["ring_failed"]


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.ENOSPC, "No space left on device"), ValueError()])
def test_a_line_that_cannot_be_written_is_lost_and_stops_nothing(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(io.StringIO):
        @override
        def write(self, text: str, /) -> int:
            raise error

        @override
        def flush(self) -> None:
            raise error

    before = structlog.get_config()
    monkeypatch.setattr(sys, "stderr", Gone())
    set_up_logging(level="info", human=False)
    try:
        structlog.get_logger().info("event")
    finally:
        structlog.configure(**before)
