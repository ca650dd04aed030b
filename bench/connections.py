"""What hostile clients of one machine cost everybody else: memory, other clients' latency, and what is left afterwards.

Four attacks, none of which needs a key: requests pipelined on one socket and on 300 without reading an answer, readers
that stop, and uploads that stop. Each runs against a process of its own, beside a client that puts and reads. Printed
are the resident memory of the process, measured from outside, and the latency of that client beside the same without
the attack. Everything is sent to this machine, and ends after a fixed number of requests or seconds.
"""

import asyncio
import contextlib
import random
import socket
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psutil

from bench.throughput import text
from bench.wire import Timings, connect
from support.service import Service, serving

MIB: Final = 1024 * 1024
ATTACK_SECONDS: Final = 25.0
"""Seconds after which an attack that does not end by itself is ended."""
QUIET_SECONDS: Final = 10.0
AFTER_SECONDS: Final = 60.0
LARGE: Final = "large"
"""Label of an artifact of 64 MiB, which readers ask for."""
REQUEST: Final = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"


@dataclass
class Memory:
    """Resident memory of a process, in bytes."""

    process: psutil.Process
    peak: int = 0

    def now(self) -> int:
        """Measure it."""
        size = self.process.memory_info().rss
        self.peak = max(self.peak, size)
        return size


Attack = Callable[[Service], Awaitable[None]]


def run() -> None:
    """Print a line an attack."""
    memory = f"{'idle MiB':>8} {'peak +':>7} {'after +':>7}"
    print(f"{'attack':>22} | {memory} | {'p50 ms':>7} {'p99 ms':>7} | of quiet: p50  p99", flush=True)
    for name, attack in (
        ("1 M on one socket", _pipeline(1, 1_000_000)),
        ("8,000 on 300 sockets", _pipeline(300, 8_000)),
        ("300 stopped readers", _stop_reading),
        ("200 stalled uploads", _stall),
    ):
        with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
            asyncio.run(_measure(name, service, attack))


async def _measure(name: str, service: Service, attack: Attack) -> None:
    service.post(text(random.Random(3), 64 * MIB), labels=LARGE)
    memory = Memory(psutil.Process(service.process.pid))
    await _work(service, memory, time.perf_counter() + 3)  # warm
    quiet = await _work(service, memory, time.perf_counter() + QUIET_SECONDS)
    idle = memory.now()
    memory.peak = idle
    attacking = asyncio.create_task(_attack(service, attack))
    stormy = await _work(service, memory, time.perf_counter() + ATTACK_SECONDS)
    await attacking
    peak = memory.peak
    await asyncio.sleep(AFTER_SECONDS)
    after = memory.now()
    print(
        f"{name:>22} | {idle / MIB:8.0f} {(peak - idle) / MIB:7.0f} {(after - idle) / MIB:7.0f} | "
        f"{stormy.at(0.5):7.1f} {stormy.at(0.99):7.1f} | "
        f"{stormy.at(0.5) / quiet.at(0.5):12.1f} {stormy.at(0.99) / quiet.at(0.99):5.1f}",
        flush=True,
    )


async def _attack(service: Service, attack: Attack) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ATTACK_SECONDS):
            await attack(service)


async def _work(service: Service, memory: Memory, until: float) -> Timings:
    """The latency of a client that puts 4 KB, and asks for its liveness, until then."""
    timings, rest, number = Timings(), text(random.Random("connections"), 4_000), 0
    async with connect(service.url) as connection:
        while time.perf_counter() < until:
            number += 1
            began = time.perf_counter()
            await connection.ask("POST", "/v1/artifacts/raw", f"{number} {began}\n".encode() + rest)
            timings.each.append(time.perf_counter() - began)
            memory.now()
            await asyncio.sleep(0.01)
    return timings


@contextlib.contextmanager
def _socket(service: Service) -> Generator[socket.socket]:
    url = urlsplit(service.url)
    with socket.create_connection((url.hostname, url.port)) as opened:
        opened.setblocking(False)
        yield opened


@contextlib.asynccontextmanager
async def _sockets(service: Service, count: int) -> AsyncGenerator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_socket(service)) for _ in range(count)]


def _pipeline(sockets: int, requests: int) -> Attack:
    """Requests on each of several sockets, as far as they are taken; no answer is read."""

    async def attack(service: Service) -> None:
        async with _sockets(service, sockets) as opened:
            await asyncio.gather(*(_send(each, REQUEST * requests) for each in opened))
            await asyncio.Event().wait()

    return attack


async def _send(to: socket.socket, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        await asyncio.get_running_loop().sock_sendall(to, data)


async def _stop_reading(service: Service) -> None:
    """Readers of 64 MiB that read nothing."""
    artifact = service.get("/v1/artifacts", label=LARGE)["items"][0]["id"]
    request = f"GET /v1/artifacts/{artifact}/content HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    async with _sockets(service, 300) as opened:
        await asyncio.gather(*(_send(each, request) for each in opened))
        await asyncio.Event().wait()


async def _stall(service: Service) -> None:
    """Uploads that announce 1 MiB, send 64 KiB, and stop."""
    head = f"POST /v1/artifacts/raw HTTP/1.1\r\nhost: localhost\r\ncontent-length: {MIB}\r\n\r\n".encode()
    async with _sockets(service, 200) as opened:
        await asyncio.gather(*(_send(each, head + bytes(64 * 1024)) for each in opened))
        await asyncio.Event().wait()
