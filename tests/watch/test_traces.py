"""Traces, as a collector gets them: a real server sends OTLP to an HTTP server of the test."""

import contextlib
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.combos import EMBEDDED, Combo
from support.http_server import QuietHandler, http_server
from support.service import serving

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FAST = {"OTEL_BSP_SCHEDULE_DELAY": "200"}


class Collector:
    """Takes spans, or answers as it is told."""

    def __init__(self, status: int) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.paths: set[str] = set()
        self.asked = threading.Event()
        collector = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                collector.take(self.path, self.body())
                self.answer(status, b"", None)

        self.handler = Handler
        self.url = ""

    def take(self, path: str, body: bytes) -> None:
        self.paths.add(path)
        for each in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append({a.key: a.value.string_value for a in each.resource.attributes})
            self.spans += [span for scope in each.scope_spans for span in scope.spans]
        self.asked.set()


@contextlib.contextmanager
def collecting(status: int = 200) -> Generator[Collector]:
    collector = Collector(status)
    with http_server(collector.handler) as collector.url:
        yield collector


def attributes(span: Any) -> dict[str, object]:  # noqa: ANN401 - protobuf's
    return {a.key: a.value.string_value or a.value.int_value for a in span.attributes}


def below(spans: list[Any], span: Any) -> set[str]:  # noqa: ANN401 - protobuf's
    """Names of a span's parts and of their parts."""
    parts = [s for s in spans if s.parent_span_id == span.span_id]
    return {s.name for s in parts}.union(*(below(spans, s) for s in parts))


def test_a_collector_gets_requests_with_their_stages_as_parts_of_their_callers_trace(tmp_path: Path) -> None:
    with collecting() as collector:
        # random enough not to be compressed into the catalogue
        payload = (
            bytes(range(256)) * 10
            + Path(__file__).read_bytes()
            + b"".join((n * 2654435761 % 2**64).to_bytes(8, "big") for n in range(40_000))
        )
        with serving(tmp_path / "data", Combo(EMBEDDED, environment=FAST), otlp_endpoint=collector.url) as service:
            answer = service.client.post("/v1/artifacts/raw", content=payload, headers={"traceparent": PARENT})
            artifact = answer.json()["id"]
            assert service.content(artifact) == payload
            service.client.get("/v1/artifacts/art_000000000000000000", headers={"traceparent": "nonsense"})
    spans = collector.spans
    assert collector.paths == {"/v1/traces"}
    assert {r["service.name"] for r in collector.resources} == {"coatcheck"}
    store = next(s for s in spans if s.name == "POST /v1/artifacts/raw")
    assert (store.trace_id.hex(), store.parent_span_id.hex()) == (PARENT.split("-")[1], PARENT.split("-")[2])
    assert {"receive", "draft", "commit", "intent", "blob put", "blob sync"} <= below(spans, store)
    facts = attributes(store)
    assert (facts["http.route"], facts["http.response.status_code"]) == ("/v1/artifacts/raw", 201)
    assert (facts["coatcheck.artifact_id"], facts["http.request.body.size"]) == (artifact, len(payload))
    content = next(s for s in spans if s.name == "GET /v1/artifacts/{artifact_id}/content")
    assert {"find", "blob get"} <= below(spans, content)
    wrong = next(s for s in spans if s.name == "GET /v1/artifacts/{artifact_id}")
    assert wrong.parent_span_id == b""
    assert wrong.trace_id.hex() != PARENT.split("-")[1]


def test_the_standard_variables_turn_traces_on_and_no_payload_is_in_them(tmp_path: Path) -> None:
    canary = "kwyjibo-3141"
    with collecting() as collector:
        environment = {
            **FAST,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_SERVICE_NAME": "mine",
        }
        with serving(tmp_path / "data", Combo(EMBEDDED, environment=environment)) as service:
            receipt = service.post(f"{canary}\n" * 3000, query=canary, title=canary)
            service.client.get(f"/v1/artifacts/{receipt['id']}/search", params={"pattern": f"({canary}"})
            service.client.get(f"/v1/artifacts/{receipt['id']}/search", params={"pattern": canary})
    assert {r["service.name"] for r in collector.resources} == {"mine"}
    assert len(collector.spans) > 5
    assert not any(canary in str(span) for span in collector.spans)


@pytest.mark.parametrize("broken", ["refusing", "nobody"])
def test_a_collector_that_fails_hurts_no_request_and_no_stop(tmp_path: Path, broken: str) -> None:
    with collecting(503) as collector:
        url = collector.url if broken == "refusing" else "http://127.0.0.1:9"
        with serving(tmp_path / "data", Combo(EMBEDDED, environment=FAST), otlp_endpoint=url) as service:
            for number in range(20):
                service.post(f"output {number}\n")
            if broken == "refusing":
                assert collector.asked.wait(60)
            assert len(service.get("/v1/artifacts")["items"]) == 20


def test_without_being_asked_for_nothing_of_telemetry_is_loaded() -> None:
    import subprocess  # noqa: PLC0415 - only here
    import sys  # noqa: PLC0415

    code = "import sys, coatcheck.bootstrap.service; sys.exit('opentelemetry.sdk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
