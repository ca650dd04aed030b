"""Ingest and read throughput at four sizes and two numbers of clients, beside two floors of the same run."""

import asyncio
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import floors
from bench.wire import load
from support.service import serving

SIZES = {"4 KB": 4_000, "16 KB": 16_000, "256 KB": 256_000, "1 MB": 1_000_000}
OK = frozenset({200, 201, 206})
WORDS = (Path(__file__).parents[1] / "LICENSE").read_text(encoding="utf-8").split()


def text(rng: random.Random, size: int) -> bytes:
    """Lines as logs have them: a moment, a level, a place, words. Never twice the same."""
    lines: list[str] = []
    length = 0
    while length < size:
        moment = f"2026-03-{rng.randrange(1, 29):02}T{rng.randrange(24):02}:{rng.randrange(60):02}:07Z"
        line = f"{moment} INFO worker[{rng.randrange(64)}]: {' '.join(rng.choices(WORDS, k=9))}"
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines).encode()[:size]


def run() -> None:
    """Print the table."""
    header = f"{'size':>7} {'clients':>7} | {'ingest/s':>9} {'p50 ms':>7} {'p99 ms':>7} | {'read/s':>8} {'p50 ms':>7}"
    print(f"{header} | {'not stored/s':>12} {'durable/s':>10} | of floors")
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        port = free_port()
        floor = subprocess.Popen([sys.executable, "-m", "bench.floors", str(port)])
        try:
            wait_for(port)
            for name, size in SIZES.items():
                for clients in (1, 16):
                    _row(Path(folder), service.url, f"http://127.0.0.1:{port}", name, size, clients)
        finally:
            floor.terminate()
            floor.wait()


def _row(folder: Path, url: str, floor_url: str, name: str, size: int, clients: int) -> None:
    rng = random.Random(f"{size} {clients}")
    count = max(40, min(1500, 40_000_000 // size)) // (4 if clients == 1 else 1)
    payloads = [text(rng, size) for _ in range(count)]
    posts = [("POST", "/v1/artifacts/raw", p) for p in payloads]
    nothing = asyncio.run(load(floor_url, posts, clients, OK))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        bare = floors.durable(Path(scratch), payloads, clients)
    ingest = asyncio.run(load(url, posts, clients, OK))
    listing = _ids(url, min(count, 200))
    reads = [("GET", f"/v1/artifacts/{rng.choice(listing)}/read?max_tokens=1000", b"") for _ in range(count)]
    read = asyncio.run(load(url, reads, clients, OK))
    print(
        f"{name:>7} {clients:>7} | {ingest.per_second():9.0f} {ingest.at(0.5):7.2f} {ingest.at(0.99):7.2f} | "
        f"{read.per_second():8.0f} {read.at(0.5):7.2f} | {nothing.per_second():12.0f} {bare:10.0f} | "
        f"{ingest.per_second() / nothing.per_second():.2f} {ingest.per_second() / bare:.2f}",
        flush=True,
    )


def _ids(url: str, limit: int) -> list[str]:
    import httpx  # noqa: PLC0415 - outside what is measured

    items = httpx.get(f"{url}/v1/artifacts", params={"limit": limit}, trust_env=False).json()["items"]
    return [item["id"] for item in items]


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait_for(port: int) -> None:
    """Return when something listens on a port of this machine."""
    for _ in range(200):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the floor did not start")
