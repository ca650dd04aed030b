"""Metrics of several processes as those of one: each leaves its own in a directory, and any of them adds all up.

What processes left is at most a second old. Counts of a process that ended stay, so that no sum ever falls; what it
had or was doing goes with it. Knows no metric but those that are the same in every process.
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
        "artifacts",
        "stored_bytes",
        "expired_artifacts",
        "overdue_seconds",
        "dead_blobs",
        "dead_blob_bytes",
        "census_age_seconds",
    )
) | {"process_start_time_seconds", "process_max_fds"}
"""Gauges that every process has alike, or that are true where they are true of one: the largest is shown."""


class _Left(Struct, array_like=True):
    """A metric as a process left it."""

    name: str
    said: str
    kind: str
    samples: list[tuple[str, dict[str, str], float]]


class MetricsOfAll(Collector):
    """The metrics of all processes that share a directory."""

    def __init__(self, folder: Path, own: CollectorRegistry) -> None:
        """`own` are the metrics of this process."""
        self._folder = folder
        self._own = own
        self._lock = threading.Lock()
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def leave(self) -> None:
        """Leave the metrics of this process for the others. Blocks for a moment."""
        path = self._folder / f"{os.getpid()}.json"
        with self._lock:  # what is older must not take the place of what is newer
            left = [_left(metric) for metric in self._own.collect()]
            path.with_suffix(".new").write_bytes(msgspec.json.encode(left))
            path.with_suffix(".new").rename(path)

    @override
    def collect(self) -> Iterable[Metric]:
        """See Collector: the sums, or the largest of what is the same everywhere. Blocks for a moment.

        Of this process, too, what it leaves counts: so no sum falls, whichever process is asked next.
        """
        self.leave()
        found: dict[str, Metric] = {}
        values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
        for metric, ended in self._everything():
            if ended and metric.kind == "gauge":
                continue
            found.setdefault(metric.name, Metric(metric.name, metric.said, metric.kind))
            mine = values.setdefault(metric.name, {})
            for name, labels, value in metric.samples:
                key = name, tuple(labels.items())
                if key not in mine:
                    mine[key] = value
                elif name.endswith("_created"):
                    mine[key] = min(mine[key], value)
                else:
                    mine[key] = max(mine[key], value) if metric.name in _SAME else mine[key] + value
        for name, metric in found.items():
            for (sample, labels), value in values[name].items():
                metric.add_sample(sample, dict(labels), value)
        return found.values()

    def describe(self) -> Iterable[Metric]:
        """Nothing: what processes have is not known before they leave it."""
        return ()

    def _everything(self) -> Iterable[tuple[_Left, bool]]:
        """Every metric of every process, and whether that has ended."""
        for path in sorted(self._folder.iterdir()):
            if path.suffix == ".new":
                continue
            try:
                data = path.read_bytes()
            except FileNotFoundError:  # its process has just ended
                data = path.with_suffix(".ended").read_bytes()
            for metric in msgspec.json.decode(data, type=list[_Left]):
                yield metric, path.suffix == ".ended"


def _left(metric: Metric) -> _Left:
    samples = [(sample.name, sample.labels, float(sample.value)) for sample in metric.samples]
    return _Left(metric.name, metric.documentation, metric.type, samples)
