"""The Tracer port over the official OpenTelemetry SDK: spans of requests and their stages, sent by OTLP over HTTP.

Needs `coatcheck[telemetry]`, and is imported only if traces are wanted. Spans are passed to a thread of the SDK,
through a queue that drops what does not fit: a collector that is slow, away or wrong delays no request. No span has an
exception event, because the exception's text may come from a payload. Sampling, resource and headers are the SDK's own
settings (`OTEL_TRACES_SAMPLER`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_EXPORTER_OTLP_HEADERS`).

`trace_catalog` and `trace_blobs` wrap the stores only if there is a tracer, so without one they cost nothing.
"""

import contextlib
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, cast

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.artifacts import DeleteArtifact, DeleteSession, PatchArtifact, StoreArtifact, StoreView
from coatcheck.ports.blobs import BeginUpload, BlobStore, BlobWriter
from coatcheck.ports.decisions import Answer, CatalogChange
from coatcheck.ports.telemetry import Stage, Tracer

_CHANGES: Final[dict[type[CatalogChange[Any]], str]] = {
    StoreArtifact: "commit",
    StoreView: "commit",
    PatchArtifact: "commit",
    DeleteArtifact: "commit",
    DeleteSession: "commit",
    BeginUpload: "intent",
}
"""Changes, and the stage name of their commit."""
_QUESTIONS: Final = {"find": "find", "list_artifacts": "list", "find_keys": "authenticate"}
"""Queries to the catalogue, by method, and their stage names."""


def trace_catalog(catalog: Any, tracer: Tracer) -> Any:  # noqa: ANN401 - whatever ports it has, it keeps
    """Returns a catalogue some of whose commits and queries appear as stages of the request's trace."""
    return _Catalog(catalog, tracer)


class _Catalog:
    """Passes every call on."""

    def __init__(self, catalog: object, tracer: Tracer) -> None:
        self._catalog: Any = catalog
        self._tracer = tracer
        for name, stage in _QUESTIONS.items():
            call = getattr(catalog, name, None)
            if call is not None:
                setattr(self, name, _trace_call(call, stage, tracer))

    async def commit(self, change: CatalogChange[Answer], /) -> Answer:
        stage = _CHANGES.get(type(change))
        with contextlib.nullcontext() if stage is None else self._tracer.stage(stage):
            return cast("Answer", await self._catalog.commit(change))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the catalogue's own
        return getattr(self._catalog, name)


def _trace_call(call: Any, stage: str, tracer: Tracer) -> Any:  # noqa: ANN401 - the catalogue's own
    async def call_in_stage(*args: object, **kwargs: object) -> object:
        with tracer.stage(stage):
            return await call(*args, **kwargs)

    return call_in_stage


def trace_blobs(blobs: BlobStore, tracer: Tracer) -> BlobStore:
    """Returns a blob store whose reads and writes appear as stages of the request's trace."""
    return cast("BlobStore", _Blobs(blobs, tracer))


class _Blobs:
    """Passes every call on."""

    def __init__(self, blobs: BlobStore, tracer: Tracer) -> None:
        self._blobs = blobs
        self._tracer = tracer

    async def create(self, namespace: str, blob_id: str) -> BlobWriter:
        with self._tracer.stage("blob create"):
            return _Writer(await self._blobs.create(namespace, blob_id), self._tracer)

    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        with self._tracer.stage("blob get") as stage:
            stage.note("bytes", length)
            return await self._blobs.read(namespace, blob_id, start, length, fresh=fresh)

    async def size(self, namespace: str, blob_id: str) -> int | None:
        with self._tracer.stage("blob size"):
            return await self._blobs.size(namespace, blob_id)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the store's own
        return getattr(self._blobs, name)


class _Writer:
    """A writer whose work appears in traces."""

    def __init__(self, writer: BlobWriter, tracer: Tracer) -> None:
        self._writer = writer
        self._tracer = tracer

    async def write(self, data: bytes) -> None:
        """See BlobWriter."""
        with self._tracer.stage("blob put") as stage:
            stage.note("bytes", len(data))
            await self._writer.write(data)

    async def finish(self) -> None:
        """See BlobWriter."""
        with self._tracer.stage("blob sync"):
            await self._writer.finish()

    async def abort(self) -> None:
        """See BlobWriter."""
        await self._writer.abort()


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
_CLOSE_SECONDS: Final = 3.0
"""Seconds for sending what is still queued at the end."""


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
            self._provider.force_flush(int(_CLOSE_SECONDS * 1000))
            self._provider.shutdown()

        ending = threading.Thread(target=end, name="last traces", daemon=True)
        ending.start()
        ending.join(_CLOSE_SECONDS)
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
        if name == "status" and int(value) >= 500:  # noqa: PLR2004 - server errors (RFC 9110)
            self._span.set_status(trace.StatusCode.ERROR)
        if name != "duration_ms":
            self._span.set_attribute(_NAMES.get(name, f"coatcheck.{name}"), value)

    def name(self) -> None:
        """Names the span after its route, now that it is known."""
        if self._route:
            self._span.update_name(f"{self._method} {self._route}")
