"""How reads fare while uploads fill every slot: their latency beside the quiet case of the same run.

Three storms. *Slow*: more uploads than there are slots, each of a session of its own and a piece of 8 KiB every 100 ms,
so that all slots are held and little is worked. *Fast*: 16 uploads that send as fast as they are taken, so that every
thread for ingest is busy. *Puts*: 16 clients that put 16 KB as fast as they are answered, so that the event loop is
busy.
"""

import asyncio
import contextlib
import random
import tempfile
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from itertools import count as numbers
from pathlib import Path

from bench.throughput import text
from bench.wire import Connection, Timings, connect, load
from support.service import Service, serving

Storm = Callable[[Connection, int], Coroutine[None, None, None]]
"""Sends over a connection, by its number, until it is cancelled."""
READS = 300
SLOTS = 64
HEAD = "POST /v1/artifacts/raw?session={seed} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


def run() -> None:
    """Print the table."""
    print(f"{'storm':>6} {'held':>5} {'waiting':>7} | {'p50 ms':>7} {'p99 ms':>7} {'max ms':>7} | of quiet: p50  p99")
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data", ingests=SLOTS) as service:
        rng = random.Random("saturation")
        ids = [service.post(text(rng, 200_000))["id"] for _ in range(8)]
        paths = [
            f"/v1/artifacts/{rng.choice(ids)}/read?offset={rng.randrange(1, 1500)}&max_tokens=800" for _ in range(READS)
        ]
        reads = [("GET", path, b"") for path in paths]
        asyncio.run(_measure(service, reads))  # warm
        quiet = asyncio.run(_measure(service, reads))
        _row("none", (0, 0), quiet, quiet)
        storms: tuple[tuple[str, int, Storm], ...] = (
            ("slow", SLOTS + 20, partial(_upload, pause=0.1)),
            ("fast", 16, partial(_upload, pause=0.0)),
            ("puts", 16, _put),
        )
        for name, count, storm in storms:
            held, stormy = asyncio.run(_in_storm(service, reads, count, storm))
            _row(name, held, stormy, quiet)


async def _measure(service: Service, reads: list[tuple[str, str, bytes]]) -> Timings:
    return await load(service.url, reads, 2, frozenset({200}))


async def _in_storm(
    service: Service, reads: list[tuple[str, str, bytes]], count: int, storm: Storm
) -> tuple[tuple[int, int], Timings]:
    async with contextlib.AsyncExitStack() as stack:
        for number in range(count):
            await stack.enter_async_context(_sending(service.url, storm, number))
        await asyncio.sleep(2)
        held = await asyncio.to_thread(_held, service)
        return held, await _measure(service, reads)


@contextlib.asynccontextmanager
async def _sending(url: str, storm: Storm, seed: int) -> AsyncGenerator[None]:
    async with connect(url) as connection:
        sending = asyncio.create_task(storm(connection, seed))
        try:
            yield
        finally:
            sending.cancel()
            await asyncio.wait([sending])


async def _upload(connection: Connection, seed: int, *, pause: float) -> None:
    piece = text(random.Random(seed), 8192 if pause else 256 * 1024)
    connection.writer.write(HEAD.format(seed=seed).encode())
    while True:
        connection.writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await connection.writer.drain()
        await asyncio.sleep(pause)


async def _put(connection: Connection, seed: int) -> None:
    rest = text(random.Random(seed), 16_000)
    for number in numbers():
        await connection.ask("POST", "/v1/artifacts/raw", f"{seed} {number}\n".encode() + rest)


def _held(service: Service) -> tuple[int, int]:
    lines = dict(line.rsplit(" ", 1) for line in service.client.get("/metrics").text.splitlines())
    return int(float(lines["coatcheck_ingests_running"])), int(float(lines["coatcheck_ingests_waiting"]))


def _row(name: str, held: tuple[int, int], found: Timings, quiet: Timings) -> None:
    print(
        f"{name:>6} {held[0]:>5} {held[1]:>7} | {found.at(0.5):7.1f} {found.at(0.99):7.1f} {found.at(1.0):7.1f} | "
        f"{found.at(0.5) / quiet.at(0.5):12.1f} {found.at(0.99) / quiet.at(0.99):5.1f}",
        flush=True,
    )
