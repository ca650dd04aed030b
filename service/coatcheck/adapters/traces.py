"""The Tracer port over the official OpenTelemetry SDK: spans of requests and their stages, sent by OTLP over HTTP.

Needs `coatcheck[telemetry]`, and is imported only if traces are wanted. Spans are passed to a thread of the SDK,
through a queue that drops what does not fit: a collector that is slow, away or wrong delays no request. No span has an
exception event, because the exception's text may come from a payload. Sampling, resource and headers are the SDK's own
settings (`OTEL_TRACES_SAMPLER`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_EXPORTER_OTLP_HEADERS`).
"""

import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.telemetry import Stage

_NAMES: Final = {
    "method": "http.request.method",
    "route": "http.route",
    "status": "http.response.status_code",
    "received": "http.request.body.size",
    "request_id": "coatcheck.request_id",
    "key_id": "coatcheck.key_id",
    "artifact_id": "coatcheck.artifact_id",
}
"""Facts of a request and their attribute names: the standard's, if it has one; the others are ours."""
_LAST: Final = 3.0
"""Seconds for sending what is still queued at the end."""
_SERVER_ERRORS: Final = 500


class OtlpTracer:
    """Traces requests. `close` sends what is left."""

    def __init__(self, endpoint: str | None, version: str) -> None:
        """Starts the SDK; nothing is sent before the first span.

        Args:
            endpoint: the collector, without `/v1/traces`; None: as in the standard variables.
            version: of this release.
        """
        exporter = OTLPSpanExporter(endpoint=None if endpoint is None else f"{endpoint.rstrip('/')}/v1/traces")
        # The variables' own attributes take precedence, but the service must not be called "unknown_service".
        resource = Resource.create({"service.version": version})
        if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": "coatcheck"}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._exporter = exporter
        self._tracer = self._provider.get_tracer("coatcheck", version)
        self._propagator = TraceContextTextMapPropagator()

    @property
    def on(self) -> bool:
        """Always true: traces are collected."""
        return True

    def request(self, method: str, parent: str | None, state: str | None) -> AbstractContextManager[Stage]:
        """Wraps a request, as a part of its caller's trace if it names a well-formed one."""
        carrier = {name: value for name, value in (("traceparent", parent), ("tracestate", state)) if value}
        return self._request(method[:20], carrier)

    @contextmanager
    def _request(self, method: str, carrier: dict[str, str]) -> Generator[Stage]:
        context = self._propagator.extract(carrier)
        with self._tracer.start_as_current_span(
            method, context, kind=trace.SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:
            noted = _Noted(span, method)
            yield noted
            noted.name()

    @contextmanager
    def stage(self, name: str) -> Generator[Stage]:
        """Wraps a stage of it."""
        with self._tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as span:
            try:
                yield _Noted(span, name)
            except CoatcheckError as error:
                span.set_attribute("error.type", str(error.code))
                span.set_status(trace.StatusCode.ERROR)
                raise

    def close(self) -> None:
        """Sends what is left, for a few seconds at most. Blocks."""

        def end() -> None:
            self._provider.force_flush(int(_LAST * 1000))
            self._provider.shutdown()

        ending = threading.Thread(target=end, name="last traces", daemon=True)
        ending.start()
        ending.join(_LAST)
        self._exporter.shutdown()  # ends the pauses between its attempts, if it is still trying


class _Noted:
    """See Stage."""

    def __init__(self, span: trace.Span, method: str) -> None:
        self._span = span
        self._method = method
        self._route = ""

    def note(self, name: str, value: str | float) -> None:
        """Adds an attribute."""
        if name == "route":
            self._route = str(value)
        if name == "status" and int(value) >= _SERVER_ERRORS:
            self._span.set_status(trace.StatusCode.ERROR)
        if name != "duration_ms":
            self._span.set_attribute(_NAMES.get(name, f"coatcheck.{name}"), value)

    def name(self) -> None:
        """Names the span after its route, now that it is known."""
        if self._route:
            self._span.update_name(f"{self._method} {self._route}")
