"""Spans for OpenTelemetry (the extra `otel`). The standard OTEL_* variables set them up; without those they are off."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace import SpanKind, format_span_id, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.tracing import Attributes, valid_traceparent

PROPAGATOR = TraceContextTextMapPropagator()


class RecordedSpan:
    def __init__(self, span: OtelSpan) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        context = self._span.get_span_context()
        return f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-{context.trace_flags:02x}"

    def tell(self, attributes: Attributes, *, name: str | None = None) -> None:
        self._span.set_attributes(dict(attributes))
        if name:
            self._span.update_name(name)


class OtelSpans:
    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("daira")

    @contextmanager
    def span(
        self, name: str, *, parent: str | None, attributes: Attributes | None = None, serves: bool = False
    ) -> Iterator[RecordedSpan]:
        with self._tracer.start_as_current_span(
            name,
            context=_context(parent),
            kind=SpanKind.SERVER if serves else SpanKind.INTERNAL,
            attributes=dict(attributes or {}),
            # An exception's text may quote a document; the job's error holds only what may be shown.
            record_exception=False,
        ) as span:
            yield RecordedSpan(span)

    def past(self, name: str, *, parent: str | None, began: int, ended: int, attributes: Attributes) -> None:
        span = self._tracer.start_span(name, context=_context(parent), attributes=dict(attributes), start_time=began)
        span.end(ended)

    def close(self) -> None:
        """Send the remaining spans. Blocks for as long as the exporter may take."""
        self._provider.shutdown()


def exporting(service: str) -> OtelSpans:
    """Make spans that a thread sends to the collector named in the environment.

    `OTEL_SERVICE_NAME` overrides `service`.
    """
    resource = Resource.create() if _is_named() else Resource.create({SERVICE_NAME: service})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelSpans(provider)


def _is_named() -> bool:
    named = Resource.create().attributes.get(SERVICE_NAME, "")
    return not str(named).startswith("unknown_service")


def _context(parent: str | None) -> Context:
    carrier: Mapping[str, str] = {"traceparent": parent} if valid_traceparent(parent) and parent else {}
    return PROPAGATOR.extract(carrier, context=Context())
