"""Merges the metrics of several processes: each writes its own to a directory, and any of them adds up all.

Other processes' metrics are at most a second old. Counters of a process that ended are kept, so no sum ever falls; its
gauges are dropped. Works for any metrics that are the same in every process.
"""

import os
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
"""Gauges that are equal in all processes, or true if they are true of one: the maximum is shown."""


class _Left(Struct, array_like=True):
    """A metric as written by a process."""

    name: str
    documentation: str
    kind: str
    samples: list[tuple[str, dict[str, str], float]]


class MetricsOfAll(Collector):
    """The metrics of all processes that share a directory."""

    def __init__(self, folder: Path, own: CollectorRegistry) -> None:
        """`own` contains the metrics of this process."""
        self._folder = folder
        self._own = own
        self._lock = threading.Lock()
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def leave(self) -> None:
        """Writes the metrics of this process for the others. Blocks briefly."""
        path = self._folder / f"{os.getpid()}.json"
        with self._lock:  # older values must not overwrite newer ones
            metrics = [_copy_metric(metric) for metric in self._own.collect()]
            path.with_suffix(".new").write_bytes(msgspec.json.encode(metrics))
            path.with_suffix(".new").rename(path)

    @override
    def collect(self) -> Iterable[Metric]:
        """See Collector: returns sums, or maximums of what is the same everywhere. Blocks briefly.

        This process's values also count as written, so that no sum falls, whichever process is queried next.
        """
        self.leave()
        metrics: dict[str, Metric] = {}
        values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
        for metric, ended in self._everything():
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
        """Returns nothing: the metrics of processes are unknown before they are written."""
        return ()

    def _everything(self) -> Iterable[tuple[_Left, bool]]:
        """Yields every metric of every process, and whether that process has ended."""
        for path in sorted(self._folder.iterdir()):
            if path.suffix == ".new":
                continue
            try:
                data = path.read_bytes()
            except FileNotFoundError:  # its process has just ended
                data = path.with_suffix(".ended").read_bytes()
            for metric in msgspec.json.decode(data, type=list[_Left]):
                yield metric, path.suffix == ".ended"


def _copy_metric(metric: Metric) -> _Left:
    samples = [(sample.name, sample.labels, float(sample.value)) for sample in metric.samples]
    return _Left(metric.name, metric.documentation, metric.type, samples)
