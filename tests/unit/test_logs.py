"""What a log line carries besides its event."""

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from app.telemetry import bind_events, set_up_logging


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
