"""What a Prometheus gets: from the registry, and from a real server that has worked for a while."""

import asyncio
import os
import re
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from coatcheck.adapters.metrics import Metrics, Standing, render_metrics
from coatcheck.adapters.metrics_of_all import MetricsOfAll
from coatcheck.cli.serving.workers import end_metrics
from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.telemetry import Overdue
from coatcheck.upkeep.maintenance import COUNT_SECONDS, Backlog, CountBacklog
from support.service import Service, serving

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 3, 1, tzinfo=UTC)
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def total(found: Samples, name: str, **labels: str) -> float:
    return sum(value for (n, had), value in found.items() if n == name and labels.items() <= dict(had).items())


def names(metrics: Metrics) -> dict[str, tuple[str, str]]:
    """Every metric of ours that can ever be answered, with its kind and its labels."""
    found: dict[str, tuple[str, str]] = {}
    collectors: list[Any] = list(cast("Any", metrics.registry)._collector_to_names)
    for collector in collectors:
        for family in collector.describe() if hasattr(collector, "describe") else ():
            if family.name.startswith("coatcheck_"):
                labels: tuple[str, ...] = getattr(collector, "_labelnames", getattr(family, "_labelnames", ()))
                name = family.name + ("_total" if family.type == "counter" else "")
                found[name] = family.type, ", ".join(f"`{label}`" for label in labels)
    return found


def test_every_metric_is_documented_with_its_kind_and_labels_and_nothing_else_is() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(coatcheck_\w+)` \| (\w+) \|([^|]*)\|", page, re.MULTILINE)
    assert {name: (kind, labels.strip()) for name, kind, labels in rows} == names(Metrics("1", Standing))


def test_every_metric_that_an_alert_asks_for_is_there() -> None:
    (group,) = yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text())["groups"]
    known = set(names(Metrics("1", Standing)))
    for rule in group["rules"]:
        asked = {re.sub(r"_bucket$", "", name) for name in re.findall(r"\bcoatcheck_\w+", rule["expr"])}
        assert asked <= known, rule["alert"]
        assert asked or rule["expr"].startswith("up")
        assert set(rule["annotations"]) == {"summary", "runbook", "runbook_url"}
        assert rule["labels"]["severity"] in {"page", "ticket"}


def test_every_counter_of_the_documentation_exists_in_a_process_that_has_just_started(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    counters = set(re.findall(r"^\| `(coatcheck_\w+)` \| counter \|", page, re.MULTILINE))
    with serving(tmp_path / "data") as fresh:
        found = samples(fresh.client.get("/metrics").text)
    assert counters
    assert counters <= {name for name, _ in found}
    for name, label, values in (
        ("coatcheck_problems_total", "code", {str(code) for code in Code}),
        ("coatcheck_ingested_total", "kind", {str(kind) for kind in Kind}),
        ("coatcheck_payload_tokens_count", "kind", {str(kind) for kind in Kind}),
        ("coatcheck_storage_faults_total", "store", {"catalogue", "blob store"}),
        ("coatcheck_http_requests_total", "status", {"2xx", "4xx", "5xx"}),
    ):
        assert values == {dict(labels)[label] for other, labels in found if other == name}


def test_the_counters_of_a_worker_stay_if_another_one_gets_its_pid(tmp_path: Path) -> None:
    for _ in range(3):
        worker = Metrics("1", Standing)
        worker.problem(Code.INTERNAL)
        MetricsOfAll(tmp_path, worker.registry).leave()
        end_metrics(os.getpid(), tmp_path)
    found = samples(render_metrics(MetricsOfAll(tmp_path, Metrics("1", Standing).registry).registry, "")[0].decode())
    assert total(found, "coatcheck_problems_total", code="internal") == 3


def test_what_happens_makes_no_new_series_of_a_counter() -> None:
    metrics = Metrics("1", Standing, [("/v1/artifacts", "POST")])
    before = set(samples(render_metrics(metrics.registry, "")[0].decode()))
    metrics.record_answer("/v1/artifacts", "POST", 201, 0.1, 1)
    metrics.problem(Code.INTEGRITY)
    metrics.record_limited("bytes")
    metrics.record_ingest(Kind.LOG, "unstored", 10, 5, 3)
    metrics.record_refusal("blob store", Code.STORAGE_FULL)
    metrics.ran("maintenance", "failed", 1.0)
    metrics.record_maintenance("purged", 3)
    after = samples(render_metrics(metrics.registry, "")[0].decode())
    assert {name for name, _ in after.keys() - before} <= {
        f"coatcheck_http_request_seconds_{part}" for part in ("bucket", "count", "sum")
    }
    assert total(after, "coatcheck_problems_total") == 1
    by_size = {size: total(after, "coatcheck_payload_tokens_bucket", kind="log", le=size) for size in ("64.0", "+Inf")}
    assert by_size == {"64.0": 1, "+Inf": 1}
    assert total(after, "coatcheck_payload_tokens_sum", kind="log") == total(after, "coatcheck_payload_tokens_sum") == 5


def test_what_callers_choose_makes_no_series() -> None:
    metrics = Metrics("1", Standing)
    before = render_metrics(metrics.registry, "")[0].count(b"\n")
    for number in range(500):
        metrics.record_answer("none", f"METHOD{number}", 405, 0.001, 0)
        metrics.record_ingest(Kind.LOG, "stored", 10, 5, 3)
    assert render_metrics(metrics.registry, "")[0].count(b"\n") - before < 60


def test_what_is_not_known_is_not_said() -> None:
    said = samples(render_metrics(Metrics("1", lambda: Standing(dead_blobs=3)).registry, "")[0].decode())
    assert total(said, "coatcheck_dead_blobs") == 3
    assert not any(name == "coatcheck_artifacts" for name, _ in said)


class Books:
    """Accounts that can be counted how often they were looked at, held up and broken."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = asyncio.Event()
        self.go.set()
        self.broken = False

    async def overdue(self, now: datetime, limit: int) -> Overdue:
        assert limit == 10_000
        self.asked += 1
        await self.go.wait()
        if self.broken:
            raise CoatcheckError(Code.STORAGE_UNAVAILABLE, "The database does not answer.")
        return Overdue(expired=self.asked, oldest=now - timedelta(seconds=7))


class Clock:
    def now(self) -> datetime:
        return NOW


class Hand:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_the_catalogue_is_counted_once_in_a_while_however_many_ask() -> None:
    books, ticks = Books(), Hand()
    backlog = CountBacklog(books, Clock(), ticks)
    assert backlog.last_backlog is None
    await asyncio.gather(*(backlog() for _ in range(50)))
    await backlog()
    ticks.now = COUNT_SECONDS - 0.1
    await backlog()
    assert (books.asked, backlog.last_backlog) == (
        1,
        Backlog(Overdue(expired=1, oldest=NOW - timedelta(seconds=7)), 7.0, 4.9),
    )
    ticks.now = COUNT_SECONDS
    await backlog()
    assert books.asked == 2


async def test_a_catalogue_that_fails_leaves_what_was_known_and_how_old_it_is() -> None:
    books, ticks = Books(), Hand()
    backlog = CountBacklog(books, Clock(), ticks)
    await backlog()
    books.broken, ticks.now = True, 60.0
    await backlog()
    known = backlog.last_backlog
    assert known is not None
    assert (known.overdue.expired, known.age, backlog.failures) == (1, 60.0, 1)


async def test_nobody_waits_long_for_a_catalogue_that_is_silent() -> None:
    books = Books()
    books.go.clear()
    backlog = CountBacklog(books, Clock(), Hand())
    await asyncio.wait_for(backlog(), 20)
    await asyncio.wait_for(backlog(), 20)
    assert (books.asked, backlog.last_backlog) == (1, None)
    await backlog.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    with serving(tmp_path_factory.mktemp("metrics") / "data", sweep_seconds=1) as running:
        yield running


def scrape(service: Service) -> Samples:
    answer = service.client.get("/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return samples(answer.text)


def test_a_server_counts_what_it_does(service: Service) -> None:
    before = scrape(service)
    log = "\n".join(f"2026-03-01T10:00:{n % 60:02} INFO step {n} of the build is done" for n in range(3000))
    first = service.post(log, tool_name="bash", kind="log")
    service.post(log, tool_name="bash", kind="log")
    service.post("short\n", kind="text")
    service.client.get(f"/v1/artifacts/{first['id']}/read")
    service.client.get(f"/v1/artifacts/{first['id']}/content")
    service.client.head(f"/v1/artifacts/{first['id']}")
    service.client.get("/v1/artifacts/art_000000000000000000")
    service.client.get("/nowhere/at/all")
    service.client.request("LOCK", "/v1/artifacts")
    found = scrape(service)

    def grew(name: str, **labels: str) -> float:
        return total(found, name, **labels) - total(before, name, **labels)

    assert grew("coatcheck_ingested_total", kind="log", outcome="stored") == 1
    assert grew("coatcheck_ingested_total", kind="log", outcome="repeated") == 1
    assert grew("coatcheck_ingested_total", kind="text", outcome="stored") == 1
    assert grew("coatcheck_ingested_bytes_total", kind="log") == 2 * len(log)
    assert grew("coatcheck_cards_total") == 2
    assert grew("coatcheck_card_tokens_total", kind="log") == 2 * first["tokens"]
    assert grew("coatcheck_replaced_tokens_total", kind="log") > 20 * first["tokens"]
    assert grew("coatcheck_http_requests_total", route="/v1/artifacts", method="POST", status="2xx") == 3
    assert grew("coatcheck_http_received_bytes_total") > 2 * len(log)
    for route in ("/read", "/content"):
        template = f"/v1/artifacts/{{artifact_id}}{route}"
        assert grew("coatcheck_http_requests_total", route=template, method="GET", status="2xx") == 1, route
        assert grew("coatcheck_http_request_seconds_count", route=template) == 1
    item = "/v1/artifacts/{artifact_id}"
    assert grew("coatcheck_http_requests_total", route=item, method="HEAD", status="2xx") == 1
    assert grew("coatcheck_http_requests_total", route=item, method="GET", status="4xx") == 1
    assert grew("coatcheck_http_requests_total", route="none", method="GET", status="4xx") == 1
    assert grew("coatcheck_http_requests_total", route="none", method="other", status="4xx") == 1
    assert grew("coatcheck_problems_total", code="route_not_found") == 1
    assert grew("coatcheck_commit_changes_sum") >= 2
    assert grew("coatcheck_commit_seconds_count") == grew("coatcheck_commit_wait_seconds_count") >= 2
    assert total(found, "coatcheck_event_loop_lag_seconds_count") > 0
    assert total(found, "coatcheck_build_info") == 1


def test_the_answer_is_openmetrics_where_that_is_asked_for(service: Service) -> None:
    answer = service.client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")


def test_another_host_name_gets_no_metrics(service: Service) -> None:
    assert service.client.get("/metrics", headers={"host": "evil.example"}).status_code == 403


def test_opened_metrics_answer_by_any_host_name_and_nothing_else_does(tmp_path: Path) -> None:
    with serving(tmp_path / "data", metrics_open="true", require_keys="true") as service:
        client = httpx.Client(base_url=service.url, trust_env=False, headers={"host": "10.1.2.3"})
        with client:
            assert client.get("/metrics").status_code == 200
            assert client.get("/v1/artifacts").status_code == 403
        assert service.client.get("/v1/artifacts").status_code == 401


def test_closed_metrics_need_a_key(tmp_path: Path) -> None:
    with serving(tmp_path / "data", require_keys="true") as service:
        answer = service.client.get("/metrics")
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
