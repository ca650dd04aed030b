"""Implements the port Tracer with the OpenTelemetry SDK: spans of requests and their stages, sent by OTLP over HTTP.

This module needs `coatcheck[telemetry]`, and is imported only if traces are enabled. Spans are passed to a thread of
the SDK through a queue, which drops spans if it is full. Therefore a collector that is slow or does not respond delays
no request. No span has an exception event, because the text of an exception may come from a payload. Sampling, resource
and headers are settings of the SDK itself (`OTEL_TRACES_SAMPLER`, `OTEL_RESOURCE_ATTRIBUTES`,
`OTEL_EXPORTER_OTLP_HEADERS`).

`trace_catalog` and `trace_blobs` wrap the stores only if traces are enabled, so that they cost nothing otherwise.
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
"""The changes whose commits are traced, each with the name of its stage."""
_QUESTIONS: Final = {"find": "find", "list_artifacts": "list", "find_keys": "authenticate"}
"""The catalogue's methods that are traced, each with the name of its stage."""


def trace_catalog(catalog: Any, tracer: Tracer) -> Any:  # noqa: ANN401 - the result has all ports of the catalogue
    """Returns a wrapped catalogue, whose most important commits and queries are stages of the request's trace."""
    return _Catalog(catalog, tracer)


class _Catalog:
    """Passes all calls on to a catalogue, and traces some of them."""

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
    """Returns a wrapped blob store, whose reads and writes are stages of the request's trace."""
    return cast("BlobStore", _Blobs(blobs, tracer))


class _Blobs:
    """Passes all calls on to a blob store, and traces some of them."""

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
    """Passes all calls on to a writer of a blob, and traces `write` and `finish`."""

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
"""Names of the attributes of a span by the names of the facts. OpenTelemetry's own names are used where they exist."""
_CLOSE_SECONDS: Final = 3.0
"""Maximum seconds for sending the queued spans when the tracer is closed."""


class OtlpTracer:
    """Traces requests. `close` sends the spans that are still queued."""

    def __init__(self, endpoint: str | None, version: str) -> None:
        """Starts the SDK; nothing is sent before the first span.

        Args:
            endpoint: the URL of the collector, without `/v1/traces`; None: the SDK's own variables have it.
            version: the version of this release.
        """
        exporter = OTLPSpanExporter(endpoint=None if endpoint is None else f"{endpoint.rstrip('/')}/v1/traces")
        # Attributes in the SDK's variables take precedence. Without a name there, the SDK would call the service
        # "unknown_service".
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
        """Returns a context that traces a request, as a part of its caller's trace if `parent` is well-formed."""
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
        """Returns a context that traces a stage of the current request."""
        with self._tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as span:
            try:
                yield _Noted(span, name)
            except CoatcheckError as error:
                span.set_attribute("error.type", str(error.code))
                span.set_status(trace.StatusCode.ERROR)
                raise

    def close(self) -> None:
        """Sends the spans that are still queued. Blocks for a few seconds at most."""

        def end() -> None:
            self._provider.force_flush(int(_CLOSE_SECONDS * 1000))
            self._provider.shutdown()

        ending = threading.Thread(target=end, name="last traces", daemon=True)
        ending.start()
        ending.join(_CLOSE_SECONDS)
        self._exporter.shutdown()  # ends the pauses between attempts to send, if the thread still makes them


class _Noted:
    """A span to which facts can be added. See Stage."""

    def __init__(self, span: trace.Span, method: str) -> None:
        self._span = span
        self._method = method
        self._route = ""

    def note(self, name: str, value: str | float) -> None:
        """Adds a fact as an attribute of the span; except `duration_ms`, because a span has its own duration."""
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
