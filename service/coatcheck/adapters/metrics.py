"""Implements the Meter port with Prometheus metrics: events are counted when they happen, gauges are read on request.

The metrics have a registry of their own. Callers cannot choose the value of a label: labels are templates of routes,
kinds, codes and jobs, never a namespace, key or session. `docs/metrics.md` explains every metric; a test compares it
with this module.
"""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Annotated, Final, get_args, get_type_hints

from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coatcheck.core.artifact import ENGINE, Kind
from coatcheck.core.caches import cache_sizes
from coatcheck.core.errors import Code
from coatcheck.ports.catalog import FAULTS
from coatcheck.ports.telemetry import IngestOutcome, Job, JobResult, RateLimit, RemovedRows, StoreName

# Otherwise the library would add to each counter a second series, with the time at which the counter was created.
disable_created_metrics()

_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_STATUSES: Final = ("2xx", "4xx", "5xx")
"""The classes of HTTP statuses with which any route may answer."""
_REQUEST_SECONDS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""Upper bounds of the buckets of request times, in seconds: from a small read to a request that waits for a slot and
then for storage."""
_SHORT_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Upper bounds of the buckets for steps within a request, in seconds."""
_JOB_SECONDS: Final = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0)
"""Upper bounds of the buckets of job times, in seconds: from an idle round to a round that works off a backlog."""
_PAYLOAD_TOKENS: Final = (64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576)
"""Upper bounds of the buckets of payload sizes, in tokens: each is four times the one before."""
_CHANGES_PER_COMMIT: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Upper bounds of the buckets of group sizes, in changes, up to the maximum of a group."""


class Standing(Struct, frozen=True, kw_only=True):
    """The present state of the service, from which gauges are read.

    Each field has the name of its metric without `coatcheck_`, and the metric's help text as annotation. None: the
    value is unknown, and the metric is left out.
    """

    ingests_running: Annotated[int, "Payloads being ingested now."] = 0
    ingests_waiting: Annotated[int, "Payloads waiting for an ingest slot."] = 0
    ingests_shed_total: Annotated[
        int, "Payloads that got a card but were not stored, because no ingest slot became free in time."
    ] = 0
    ingests_refused_total: Annotated[int, "Payloads refused because there was no slot for that either."] = 0
    ingests_stalled_total: Annotated[
        int, "Uploads that were ended because their senders were silent while others waited."
    ] = 0
    reads_waiting: Annotated[int, "Read tasks waiting for a reader thread."] = 0
    reads_refused_total: Annotated[int, "Read tasks refused because too many were waiting."] = 0
    fallback_payloads: Annotated[int, "Payloads in the fallback buffer: storage did not accept them yet."] = 0
    fallback_bytes: Annotated[int, "Bytes of memory used by the fallback buffer."] = 0
    catalog_silent: Annotated[bool, "1 while the catalogue does not answer."] = False
    blobs_silent: Annotated[bool, "1 while the blob store does not answer."] = False
    degraded: Annotated[
        bool, "1 while the service is not ready: a store is away or refuses writes, as of the last check."
    ] = False
    storage_full: Annotated[bool, "1 while a store has no room for payloads, as of the last check of readiness."] = (
        False
    )
    catalog_damaged: Annotated[
        bool, "1 while the catalogue is known to be damaged and is only read, as of the last check."
    ] = False
    extract_workers_started_total: Annotated[int, "Extraction worker processes started."] = 0
    extract_workers_lost_total: Annotated[
        int, "Extraction worker processes that crashed or were killed by a payload."
    ] = 0
    deletions_paused: Annotated[
        bool,
        "1 while nothing is deleted by time, because the clock may be wrong, the catalogue is damaged, or an "
        "administrator said so.",
    ] = False
    clock_drift_seconds: Annotated[float, "Seconds by which the authoritative clock was set ahead since the start."] = (
        0.0
    )
    artifacts: Annotated[int | None, "Artifacts, including expired ones that are not removed yet."] = None
    stored_bytes: Annotated[int | None, "Stored bytes charged to namespaces."] = None
    expired_artifacts: Annotated[int | None, "Expired artifacts that are not removed yet; counted up to 10,000."] = None
    overdue_seconds: Annotated[
        float | None, "Seconds since the longest-expired artifact that is not removed yet expired; 0 if there is none."
    ] = None
    dead_blobs: Annotated[int | None, "Unreferenced blobs that are not swept yet; counted up to 10,000."] = None
    dead_blob_bytes: Annotated[int | None, "Stored bytes of the dead blobs."] = None
    backlog_age_seconds: Annotated[float | None, "Age in seconds of the gauges that are read from the catalogue."] = (
        None
    )


_HELP_TEXTS: Final = {
    name: str(hint.__metadata__[0]) for name, hint in get_type_hints(Standing, include_extras=True).items()
}
"""The help text of each metric that is read from Standing, by the field's name."""


class Metrics:
    """The metrics of one process. The class implements the port Meter."""

    def __init__(self, version: str, standing: Callable[[], Standing], routes: Iterable[tuple[str, str]] = ()) -> None:
        """Creates all metrics, which start at zero.

        Args:
            version: the release.
            standing: returns the present state; it is called at every rendering and must not block.
            routes: templates and methods of the routes whose series exist from the start; series of other routes are
                created by their first request.
        """
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        documentation = "Always 1; the labels name the release."
        Gauge("coatcheck_build_info", documentation, ["version", "engine"], registry=self.registry).labels(
            version, str(ENGINE)
        ).set(1)
        self._requests = Counter(
            "coatcheck_http_requests", "HTTP requests answered.", ["route", "method", "status"], registry=self.registry
        )
        for route, method in routes:
            for status in _STATUSES:
                self._requests.labels(route, method, status)
        self._request_seconds = self._histogram(
            "http_request_seconds",
            "Seconds from the head of a request to the end of its response.",
            _REQUEST_SECONDS,
            "route",
            "method",
        )
        self._received = self._counter("http_received_bytes", "Bytes received in request bodies.")
        self._problems = self._counter("problems", "Error responses, including failed items of a batch.", code=Code)
        self._limited = self._counter(
            "rate_limited", "Requests refused because the caller exceeded a rate limit.", limit=get_args(RateLimit)
        )
        self._ingested = self._counter("ingested", "Payloads ingested.", kind=Kind, outcome=get_args(IngestOutcome))
        self._ingested_bytes = self._counter("ingested_bytes", "Decoded bytes of ingested payloads.", kind=Kind)
        self._payload_tokens = self._histogram(
            "payload_tokens", "Tokens of ingested payloads, exact or estimated.", _PAYLOAD_TOKENS, "kind"
        )
        for kind in Kind:
            self._payload_tokens.labels(kind)
        self._cards = self._counter("cards", "Ingested payloads that were answered with a card.", kind=Kind)
        self._tokens_with_card = self._counter(
            "replaced_tokens", "Tokens of the payloads that were answered with a card.", kind=Kind
        )
        self._shown = self._counter("card_tokens", "Tokens of the cards returned in place of payloads.", kind=Kind)
        self._faults = self._counter(
            "storage_faults", "Calls to a store that failed.", store=get_args(StoreName), code=FAULTS
        )
        self._changes = self._histogram("commit_changes", "Changes committed in one transaction.", _CHANGES_PER_COMMIT)
        self._waited = self._histogram(
            "commit_wait_seconds", "Seconds that the first change of a commit had waited.", _SHORT_SECONDS
        )
        self._took = self._histogram("commit_seconds", "Seconds that a commit took, including retries.", _SHORT_SECONDS)
        # Not called `job`: Prometheus gives every series a label of that name.
        jobs, results = get_args(Job), get_args(JobResult)
        self._runs = self._counter("job_runs", "Runs of maintenance jobs.", task=jobs, result=results)
        self._run_seconds = self._histogram("job_seconds", "Seconds that a maintenance job took.", _JOB_SECONDS, "task")
        for job in jobs:
            self._run_seconds.labels(job)
        self._removed_rows = self._counter("removed_rows", "Rows that maintenance removed.", what=get_args(RemovedRows))
        self._lag = self._histogram(
            "event_loop_lag_seconds", "Event-loop lag in seconds; it delays every request.", _SHORT_SECONDS
        )
        self.registry.register(_StandingCollector(standing))
        self.registry.register(_CacheCollector())
        # The series of labels that were used before, because looking up a label costs more than counting.
        self._kinds: dict[tuple[Kind, str], tuple[Histogram, tuple[Counter, ...]]] = {}
        self._answered: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def _counter(self, name: str, documentation: str, **labels: Iterable[str]) -> Counter:
        """Creates a counter with all its series; `labels` has all values that each label may take."""
        counter = Counter(f"coatcheck_{name}", documentation, labels, registry=self.registry)
        for values in product(*labels.values()) if labels else ():
            counter.labels(*values)
        return counter

    def _histogram(self, name: str, documentation: str, buckets: Iterable[float], *labels: str) -> Histogram:
        return Histogram(f"coatcheck_{name}", documentation, labels, buckets=tuple(buckets), registry=self.registry)

    def record_answer(self, route: str, method: str, status: int, seconds: float, received: int) -> None:
        """See Meter."""
        key = (route, method, status // 100)
        entry = self._answered.get(key)
        if entry is None:
            method_label = method if method in _METHODS else "other"
            requests = self._requests.labels(route, method_label, f"{status // 100}xx")
            entry = requests, self._request_seconds.labels(route, method_label)
            if method_label == method:  # callers may invent any number of other methods, which must not fill the cache
                self._answered[key] = entry
        entry[0].inc()
        entry[1].observe(seconds)
        if received:
            self._received.inc(received)

    def problem(self, code: Code) -> None:
        """See Meter."""
        self._problems.labels(code).inc()

    def record_limited(self, what: RateLimit) -> None:
        """See Meter."""
        self._limited.labels(what).inc()

    def record_ingest(
        self, kind: Kind, outcome: IngestOutcome, size: int, tokens: int, card_tokens: int | None
    ) -> None:
        """See Meter."""
        entry = self._kinds.get((kind, outcome))
        if entry is None:
            counters = (self._ingested_bytes, self._cards, self._tokens_with_card, self._shown)
            payloads = self._ingested.labels(kind, outcome)
            series = (payloads, *(counter.labels(kind) for counter in counters))
            entry = self._kinds[kind, outcome] = (self._payload_tokens.labels(kind), series)
        payload_tokens, (payloads, payload_bytes, cards, tokens_with_card, tokens_of_cards) = entry
        payload_tokens.observe(tokens)
        payloads.inc()
        payload_bytes.inc(size)
        if card_tokens is not None:
            cards.inc()
            tokens_with_card.inc(tokens)
            tokens_of_cards.inc(card_tokens)

    def record_refusal(self, store: StoreName, code: Code) -> None:
        """See Meter."""
        self._faults.labels(store, code).inc()

    def record_commit(self, changes: int, waited: float, took: float) -> None:
        """See Meter."""
        self._changes.observe(changes)
        self._waited.observe(waited)
        self._took.observe(took)

    def ran(self, job: Job, result: JobResult, seconds: float) -> None:
        """See Meter."""
        self._runs.labels(job, result).inc()
        self._run_seconds.labels(job).observe(seconds)

    def record_maintenance(self, what: RemovedRows, rows: int) -> None:
        """See Meter."""
        self._removed_rows.labels(what).inc(rows)

    def record_lag(self, seconds: float) -> None:
        """See Meter."""
        self._lag.observe(max(0.0, seconds))


def render_metrics(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Returns all metrics, in the format that best matches an Accept field, and that format's media type."""
    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


class _CacheCollector(Collector):
    """The sizes of this process's caches, read on request."""

    def collect(self) -> Iterable[Metric]:
        """See Collector."""
        families = self.describe()
        for cache, size in cache_sizes().items():
            for family, value in zip(families, size, strict=True):
                family.add_metric([cache], value)
        return families

    def describe(self) -> list[GaugeMetricFamily]:
        """Returns the gauges without values, in the order of the fields of a CacheSize."""
        return [
            GaugeMetricFamily("coatcheck_cache_entries", "Entries of the caches.", labels=["cache"]),
            GaugeMetricFamily("coatcheck_cache_bytes", "Bytes of memory that the caches hold.", labels=["cache"]),
        ]


class _StandingCollector(Collector):
    """The metrics of Standing, read on request."""

    def __init__(self, standing: Callable[[], Standing]) -> None:
        self._standing = standing

    def collect(self) -> Iterable[Metric]:
        """See Collector."""
        now = self._standing()
        values = {field: getattr(now, field) for field in _HELP_TEXTS}
        return [_family(field, float(value)) for field, value in values.items() if value is not None]

    def describe(self) -> Iterable[Metric]:
        """Returns the names and types of the metrics for the registry, including metrics that are unknown now."""
        return map(_family, _HELP_TEXTS)


def _family(field: str, value: float | None = None) -> Metric:
    name, documentation = f"coatcheck_{field}", _HELP_TEXTS[field]
    if field.endswith("_total"):
        return CounterMetricFamily(name.removesuffix("_total"), documentation, value)
    return GaugeMetricFamily(name, documentation, value)
