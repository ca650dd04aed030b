"""Merges the metrics of several processes: each process writes its metrics to a directory, and any process adds up all.

The metrics of other processes are at most a second old. The counters of a process that has ended are kept, so that no
sum ever decreases; its gauges are dropped. All processes must have the same metrics.
"""

import os
import secrets
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

_SAME: Final = frozenset(
    f"coatcheck_{name}"
    for name in (
        "build_info",
        "catalog_silent",
        "blobs_silent",
        "deletions_paused",
        "clock_drift_seconds",
        "degraded",
        "storage_full",
        "catalog_damaged",
        "artifacts",
        "stored_bytes",
        "expired_artifacts",
        "overdue_seconds",
        "dead_blobs",
        "dead_blob_bytes",
        "backlog_age_seconds",
    )
) | {"process_start_time_seconds", "process_max_fds"}
"""Gauges that are equal in all processes, or that are 1 if they are 1 in any process. Their maximum is shown, not their
sum."""


class _MetricRecord(Struct, array_like=True):
    """A metric in the form in which a process writes it to its file."""

    name: str
    documentation: str
    kind: str
    samples: list[tuple[str, dict[str, str], float]]


class MetricsOfAll(Collector):
    """The metrics of all processes that share a directory."""

    def __init__(self, folder: Path, own: CollectorRegistry) -> None:
        """Creates a registry of the merged metrics; `own` has the metrics of this process."""
        self._folder = folder
        self._own = own
        # The system may give the PID of an ended process again, and the file of that process must stay.
        self._path = folder / f"{os.getpid()}-{secrets.token_hex(8)}.json"
        self._lock = threading.Lock()
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def leave(self) -> None:
        """Writes the metrics of this process to a file, for the other processes. Blocks briefly."""
        path = self._path
        with self._lock:  # older values must not overwrite newer ones
            metrics = [_copy_metric(metric) for metric in self._own.collect()]
            path.with_suffix(".new").write_bytes(msgspec.json.encode(metrics))
            path.with_suffix(".new").rename(path)

    @override
    def collect(self) -> Iterable[Metric]:
        """See Collector. Returns the sums over all processes, or the maximum for the gauges in _SAME. Blocks briefly.

        The values of this process are written first and then read like the others, so that no sum decreases if another
        process is queried next.
        """
        self.leave()
        metrics: dict[str, Metric] = {}
        values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
        for metric, ended in self._read_all():
            if ended and metric.kind == "gauge":
                continue
            metrics.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.kind))
            mine = values.setdefault(metric.name, {})
            for name, labels, value in metric.samples:
                key = name, tuple(labels.items())
                if key not in mine:
                    mine[key] = value
                else:
                    mine[key] = max(mine[key], value) if metric.name in _SAME else mine[key] + value
        for name, metric in metrics.items():
            for (sample, labels), value in values[name].items():
                metric.add_sample(sample, dict(labels), value)
        return metrics.values()

    def describe(self) -> Iterable[Metric]:
        """Returns nothing, because the metrics are unknown before a process has written them."""
        return ()

    def _read_all(self) -> Iterable[tuple[_MetricRecord, bool]]:
        """Yields every metric of every process, and whether that process has ended."""
        for path in sorted(self._folder.iterdir()):
            if path.suffix == ".new":
                continue
            try:
                data = path.read_bytes()
            except FileNotFoundError:  # the process has just ended, and its file was renamed
                data = path.with_suffix(".ended").read_bytes()
            for metric in msgspec.json.decode(data, type=list[_MetricRecord]):
                yield metric, path.suffix == ".ended"


def _copy_metric(metric: Metric) -> _MetricRecord:
    samples = [(sample.name, sample.labels, float(sample.value)) for sample in metric.samples]
    return _MetricRecord(metric.name, metric.documentation, metric.type, samples)
