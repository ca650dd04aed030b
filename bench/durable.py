"""Durable ingest of 16 KB payloads, on both databases, beside a bare prototype and beside not storing at all."""

import asyncio
import random
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.throughput import OK, free_port, text, wait_for
from bench.wire import load
from coatcheck.adapters.sql.schema import migrate
from support.combos import Combo
from support.postgres import running_postgres
from support.service import serving

SIZE = 16_000
REQUESTS = 1500


def run() -> None:
    """Print the table."""
    print(
        f"{'database':>12} {'clients':>7} | {'ingest/s':>9} {'p50 ms':>7} {'p99 ms':>7} | {'prototype/s':>11} "
        f"{'not stored/s':>12} | of prototype"
    )
    with tempfile.TemporaryDirectory() as folder, _floor("bench.floors") as nothing:
        root = Path(folder)
        with serving(root / "data") as service, _floor("bench.prototype", "sqlite", str(root / "p.db")) as bare:
            _rows("sqlite", service.url, bare, nothing)
        with running_postgres(root / "postgres", durable=True) as server:
            ours, other = server.database(), server.database()
            migrate(ours)
            combo = Combo("postgresql+files", {"database_url": ours})
            with serving(root / "files", combo) as service, _floor("bench.prototype", "postgresql", other) as bare:
                _rows("postgresql", service.url, bare, nothing)


def _rows(name: str, url: str, bare: str, nothing: str) -> None:
    for clients in (16, 64):
        rng = random.Random(f"{name} {clients}")
        posts = [("POST", "/v1/artifacts/raw", text(rng, SIZE)) for _ in range(REQUESTS)]
        floor = asyncio.run(load(nothing, posts, clients, OK))
        prototype = asyncio.run(load(bare, posts, clients, OK))
        ours = asyncio.run(load(url, posts, clients, OK))
        print(
            f"{name:>12} {clients:>7} | {ours.per_second():9.0f} {ours.at(0.5):7.2f} {ours.at(0.99):7.2f} | "
            f"{prototype.per_second():11.0f} {floor.per_second():12.0f} | "
            f"{ours.per_second() / prototype.per_second():.2f}",
            flush=True,
        )


@contextmanager
def _floor(module: str, *arguments: str) -> Generator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", module, str(port), *arguments])
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
