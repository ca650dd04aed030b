"""What a durable ingest costs: processor time and latency of the service, beside a bare prototype and not storing.

All three are servers of their own, so that the clients' work is not counted. Processor time is that of the whole
server process, threads and system calls included. `later` is what a put leaves for the minutes after it, the full-text
index: its job is paused, so that what a put costs contains none of it. The prototype hashes, compresses and inserts in
a grouped durable commit; the floor reads the body and answers. At the end, the layers of the service that the time of a
put goes to (`bench/layers.py`).
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import httpx

from bench.throughput import OK, free_port, text, wait_for
from bench.wire import Timings, load
from coatcheck.adapters.sql.schema import migrate
from support.combos import Combo
from support.postgres import running_postgres
from support.service import serving

SIZES = {"1 KB": 1_000, "4 KB": 4_000, "16 KB": 16_000, "64 KB": 64_000}
CLIENTS = (8, 1)
ROUNDS = 3
"""Each measured in turn, so that a slow moment of the machine meets all three; the median counts."""
_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLED = 400
"""Puts of each size by which layers are told."""
_CALM = 2.0
"""Seconds in which what runs every second is done with what came last."""


class _Server:
    """A server process that is measured."""

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.pid = pid

    @property
    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def without_indexing(self) -> Self:
        """The server, which from now on indexes only when a query waits for it."""
        job = f"{self.url}/v1/admin/retention/jobs/index"
        httpx.patch(job, json={"paused": True}, trust_env=False).raise_for_status()
        return self

    def measured(self, payloads: list[bytes], clients: int) -> tuple[Timings, float]:
        """The timings of these puts, and the milliseconds of processor time of each."""
        before = self.cpu
        timings = asyncio.run(load(self.url, [("POST", "/v1/artifacts/raw", p) for p in payloads], clients, OK))
        return timings, (self.cpu - before) * 1000 / len(payloads)

    def settle(self) -> float:
        """Seconds of processor time until everything is indexed, which a query waits for."""
        before = self.cpu
        while httpx.get(f"{self.url}/v1/artifacts?q=nothing", trust_env=False).json().get("partial"):
            pass
        spent = self.cpu - before
        time.sleep(_CALM)
        return spent


def run() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as folder, _floor("bench.floors") as floor:
        root = Path(folder)
        with (
            serving(root / "data") as service,
            _floor("bench.prototype", "sqlite", str(root / "p.db")) as prototype,
        ):
            _table("sqlite", _Server(service.url, service.process.pid).without_indexing(), prototype, floor)
        _layers(root)
        with running_postgres(root / "postgres", durable=True) as server:
            ours, other = server.database(), server.database()
            migrate(ours)
            combo = Combo("postgresql+files", {"database_url": ours})
            with (
                serving(root / "files", combo) as service,
                _floor("bench.prototype", "postgresql", other) as prototype,
            ):
                _table("postgresql", _Server(service.url, service.process.pid).without_indexing(), prototype, floor)


def _table(name: str, ours: _Server, prototype: _Server, floor: _Server) -> None:
    print(
        f"{name:>10} {'clients':>7} | {'cpu ms':>6} {'later':>5} {'put/s':>7} {'p50 ms':>6} {'p99 ms':>6} | "
        f"{'prototype: cpu':>14} {'put/s':>7} | {'floor: cpu':>10} {'put/s':>7} | of prototype"
    )
    for server in (ours, prototype, floor):  # what is made once is not measured
        server.measured([text(random.Random(n), 3_000) for n in range(100)], 8)
    for size_name, size in SIZES.items():
        for clients in CLIENTS:
            _row(size_name, size, clients, ours, prototype, floor)


def _row(name: str, size: int, clients: int, ours: _Server, prototype: _Server, floor: _Server) -> None:
    rng = random.Random(f"{size} {clients} {ours.pid}")
    count = (800 if size < 50_000 else 300) // (4 if clients == 1 else 1)
    rows: list[tuple[float, ...]] = []
    for _ in range(ROUNDS):
        payloads = [text(rng, size) for _ in range(count)]
        ours.settle()
        mine, cpu = ours.measured(payloads, clients)
        later = ours.settle() * 1000 / count
        bare, bare_cpu = prototype.measured(payloads, clients)
        nothing, nothing_cpu = floor.measured(payloads, clients)
        rows.append(
            (
                cpu,
                later,
                mine.per_second(),
                mine.at(0.5),
                mine.at(0.99),
                bare_cpu,
                bare.per_second(),
                nothing_cpu,
                nothing.per_second(),
            )
        )
    m = [sorted(column)[ROUNDS // 2] for column in zip(*rows, strict=True)]
    print(
        f"{name:>10} {clients:>7} | {m[0]:6.2f} {m[1]:5.2f} {m[2]:7.0f} {m[3]:6.2f} {m[4]:6.2f} | "
        f"{m[5]:14.2f} {m[6]:7.0f} | {m[7]:10.2f} {m[8]:7.0f} | {m[2] / m[6]:.2f}",
        flush=True,
    )


def _layers(root: Path) -> None:
    """The microseconds of processor time of a put, by layer, with 8 clients."""
    report = root / "layers.json"
    columns: dict[str, dict[str, float]] = {}
    with _floor("bench.layers", str(root / "layers"), str(report)) as service:
        service.without_indexing()
        service.measured([text(random.Random(n), 3_000) for n in range(100)], 8)
        for name, size in SIZES.items():
            rng = random.Random(size)
            payloads = [text(rng, size) for _ in range(_SAMPLED)]
            service.settle()
            _reported(service, report)
            service.measured(payloads, 8)
            spent = _reported(service, report)
            service.settle()
            spent["later"] = sum(_reported(service, report).values())
            columns[name] = {layer: seconds * 1e6 / _SAMPLED for layer, seconds in spent.items()}
    print(f"{'us by layer':>12} | " + " ".join(f"{name:>7}" for name in columns))
    layers = {layer for column in columns.values() for layer in column}
    for layer in sorted(layers, key=lambda each: -columns["16 KB"].get(each, 0.0)):
        print(f"{layer:>12} | " + " ".join(f"{column.get(layer, 0.0):7.0f}" for column in columns.values()))


def _reported(service: _Server, report: Path) -> dict[str, float]:
    """What was charged to each layer since the last report."""
    report.unlink(missing_ok=True)
    os.kill(service.pid, signal.SIGUSR1)
    while not report.exists():
        time.sleep(0.05)
    spent: dict[str, float] = json.loads(report.read_text(encoding="utf-8"))
    return spent


@contextmanager
def _floor(module: str, *arguments: str) -> Generator[_Server]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", module, str(port), *arguments], stdout=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield _Server(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait()
