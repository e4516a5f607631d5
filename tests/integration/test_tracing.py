"""One upload is one trace: the request, the job, and the delivery that tells of its end, in two processes."""

import gzip
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from typing_extensions import override

from tests.support.databases import Cloned
from tests.support.sample_documents import Sheet, pdf
from tests.support.service import ended, run, serving, serving_again, upload, wait_until

pytestmark = pytest.mark.timeout(300)

STEPS = {"POST /v1/documents", "claim", "job ocr", "job webhook", "handler", "settle"}


@dataclass
class Collector:
    url: str
    spans: list[tuple[str, Span]] = field(default_factory=list)
    """Each with the service's name."""

    def trace_of(self, name: str) -> dict[str, Span]:
        """The spans of the trace that has one of this name, by name."""
        traces = {span.trace_id for _, span in self.spans if span.name == name}
        return {span.name: span for _, span in self.spans if span.trace_id in traces}


def test_an_upload_is_one_trace(cloned: Cloned, folder: Path) -> None:
    with collecting() as collector:
        asked = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "DAIRA_WEBHOOK_ALLOW_PRIVATE": "true",
        }
        with (
            serving(cloned, folder, DAIRA_ROLE="web", OTEL_SERVICE_NAME="front", **asked) as web,
            serving_again(cloned, folder, api_key=web.api_key, DAIRA_ROLE="worker", **asked),
            web.client() as client,
        ):
            client.headers["Authorization"] = f"Bearer {_key(cloned, folder)}"
            wanted = {"url": f"{collector.url}/hook", "events": ["job.done"]}
            assert client.post("/v1/webhooks", json=wanted).status_code == 201
            assert ended(client, upload(client, pdf(Sheet(lines=("Dear Sir",))))["jobs"][0])["state"] == "done"
            wait_until(lambda: collector.trace_of("POST /v1/documents").keys() >= STEPS, seconds=30)
    steps = collector.trace_of("POST /v1/documents")
    assert steps["job ocr"].parent_span_id == steps["POST /v1/documents"].span_id
    outcome = {entry.key: entry.value.string_value for entry in steps["job ocr"].attributes}
    assert outcome["daira.outcome"] == "done"
    assert {name for name, span in collector.spans if span.name == "POST /v1/documents"} == {"front"}
    assert {name for name, span in collector.spans if span.name == "job ocr"} == {"daira"}
    assert not [span for _, span in collector.spans if "healthz" in span.name]


def _key(cloned: Cloned, folder: Path) -> str:
    """One that may make webhooks."""
    asked = ("key", "create", "acme", "--scope", "admin")
    return run(*asked, cwd=folder, DAIRA_DATABASE_URL=cloned.app_url, DAIRA_BLOB_URL=folder.as_uri()).stdout.strip()


@contextmanager
def collecting() -> Iterator[Collector]:
    class Taking(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                for of_one in ExportTraceServiceRequest.FromString(body).resource_spans:
                    names = [
                        entry.value.string_value for entry in of_one.resource.attributes if entry.key == "service.name"
                    ]
                    collector.spans += [(names[0], span) for scope in of_one.scope_spans for span in scope.spans]
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        @override
        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Taking) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
