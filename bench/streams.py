"""Large uploads: what they add to resident memory, how late the event loop gets, how soon the card is there."""

import asyncio
import random
import tempfile
import time
from pathlib import Path

import psutil

from bench.throughput import text
from bench.wire import Timings, connect
from support.service import Service, serving

MIB = 1024**2
LAST = 64 * 1024
"""Bytes that a paced sender sends by themselves."""
PAUSE = 0.5
"""Seconds in which the service has taken all that was sent before them."""


async def upload(url: str, block: bytes, size: int, *, paced: bool = False) -> tuple[float, float]:
    """Send `size` bytes; answers the seconds from the last byte to the answer, and those of the whole.

    A sender that does nothing else is ahead of the service by what the sockets between them hold, which is megabytes.
    A paced one waits for the service before its last bytes: they arrive when they are sent.
    """
    async with connect(url) as c:
        c.writer.write(f"POST /v1/artifacts/raw HTTP/1.1\r\nhost: {c.host}\r\ncontent-length: {size}\r\n\r\n".encode())
        began = time.perf_counter()
        sent = 0
        while sent < size:
            rest = size - sent
            piece = block[: max(rest - LAST, LAST) if paced else rest]
            if paced and rest <= LAST:
                await asyncio.sleep(PAUSE)
            stamp = f"{random.random():.17f}\n".encode()
            c.writer.write(stamp[: len(piece)] + piece[len(stamp) :])
            sent += len(piece)
            await c.writer.drain()
        last = time.perf_counter()
        status, _ = await c.answer()
        assert status == 201, status
        return time.perf_counter() - last, time.perf_counter() - began


async def watch(service: Service, stop: asyncio.Event, lag: Timings) -> int:
    """Peak resident memory of the service, and the latency of its liveness route meanwhile."""
    process = psutil.Process(service.process.pid)
    peak = 0
    async with connect(service.url) as c:
        while not stop.is_set():
            began = time.perf_counter()
            await c.ask("GET", "/health/live")
            lag.each.append(time.perf_counter() - began)
            peak = max(peak, process.memory_info().rss)
            await asyncio.sleep(0.01)
    return peak


async def measured(service: Service, block: bytes, size: int, parallel: int) -> None:
    """Upload and print."""
    idle = psutil.Process(service.process.pid).memory_info().rss
    stop, lag = asyncio.Event(), Timings()
    watcher = asyncio.create_task(watch(service, stop, lag))
    began = time.perf_counter()
    results = await asyncio.gather(*(upload(service.url, block, size) for _ in range(parallel)))
    took = time.perf_counter() - began
    stop.set()
    peak = await watcher
    print(
        f"{parallel} x {size // MIB} MiB: {parallel * size / took / 1e6:.0f} MB/s; idle {idle / MIB:.0f} MiB, "
        f"peak +{(peak - idle) / MIB:.0f} MiB; last byte to card {1000 * max(r[0] for r in results):.0f} ms; "
        f"/health/live p50 {lag.at(0.5):.1f} ms, p99 {lag.at(0.99):.1f} ms, max {lag.at(1):.1f} ms",
        flush=True,
    )


async def cards(service: Service) -> None:
    """From a payload's last byte to its card."""
    rng = random.Random(1)
    for name, size, count in (("16 KB", 16_000, 300), ("1 MB", 1_000_000, 30), ("100 MB", 100_000_000, 5)):
        block = text(rng, min(size, 4 * MIB))
        times = Timings([(await upload(service.url, block, size))[0] for _ in range(count)])
        print(
            f"card of {name}: p50 {times.at(0.5):.1f} ms, p99 {times.at(0.99):.1f} ms after the last byte", flush=True
        )
    times = Timings([(await upload(service.url, block, 100_000_000, paced=True))[0] for _ in range(5)])
    print(f"card of 100 MB from a paced sender: p50 {times.at(0.5):.1f} ms, p99 {times.at(0.99):.1f} ms", flush=True)


def run() -> None:
    """Print one line a measurement."""
    block = text(random.Random(0), 4 * MIB)
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        asyncio.run(measured(service, block, 1024 * MIB, 1))
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        asyncio.run(cards(service))
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        asyncio.run(measured(service, block, 256 * MIB, 8))
