"""Where nothing is recorded a trace goes on all the same, and nobody's nonsense becomes one."""

import subprocess
import sys

import pytest

from app.tracing import SHAPE, NullSpans, current, trace_id
from app.wiring import open_spans
from tests.support.folders import ROOT
from tests.support.service import environment
from tests.unit.served import served

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NONE = [None, "", "nonsense", GIVEN.upper(), GIVEN + "-extra", "ff" + GIVEN[2:], "00-" + "0" * 32 + GIVEN[35:]]
SETTINGS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")


def test_a_trace_that_somebody_has_begun_goes_on() -> None:
    with NullSpans().span("request", parent=GIVEN) as span:
        assert span.traceparent == GIVEN


@pytest.mark.parametrize("nonsense", NONE)
def test_what_is_no_traceparent_begins_a_trace(nonsense: str | None) -> None:
    with NullSpans().span("request", parent=nonsense) as one, NullSpans().span("request", parent=nonsense) as other:
        assert SHAPE.fullmatch(one.traceparent)
        assert trace_id(one.traceparent) != trace_id(other.traceparent)


async def test_a_request_hands_its_trace_to_the_jobs_that_it_makes() -> None:
    async with served() as web:
        web.client.headers["traceparent"] = GIVEN
        job = await web.claim(await web.uploaded())
        assert job.traceparent == GIVEN
        del web.client.headers["traceparent"]
        other = await web.claim(await web.uploaded())
    assert other.traceparent
    assert trace_id(other.traceparent) != trace_id(GIVEN)
    assert current.get() is None


def test_without_a_collector_nothing_is_imported_for_it() -> None:
    asked = "import sys, app.asgi, app.wiring as w; w.open_spans(); print('app.adapters.otel' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True, env=environment()
    )
    assert told.stdout == "False\n"


@pytest.mark.parametrize(
    "off", [{}, {SETTINGS[0]: "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}]
)
def test_it_is_off_unless_a_collector_is_named(off: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    for name, value in off.items():
        monkeypatch.setenv(name, value)
    assert isinstance(open_spans(), NullSpans)
