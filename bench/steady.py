"""Memory of a service that is used for long: before, at its peak, and after a rest, beside what its caches hold.

A few clients put small payloads, each of other content, while the service indexes them; now and then a model reads and
searches what was put, and an administrator plans a removal of nearly everything.
"""

import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.throughput import text
from bench.wire import Connection, connect
from support.service import Service, serving

WARM_PUTS: Final = 1_000
"""Puts before the start is measured: the vocabulary is loaded, every module imported, every connection open."""
PLAN_EVERY: Final = 10_000
"""Puts between two plans."""
CLIENTS: Final = 8
READ_EVERY: Final = 20
"""Puts between two reads."""
_MB: Final = 1e6
_LIMIT: Final = 1.3
"""Most that memory after the rest, without what caches hold, may be of that at the start."""


def run(puts: int = 100_000, idle: float = 300.0) -> None:
    """Print a line now and then, and the ratio at the end."""
    print(f"{'puts':>9} {'puts/s':>7} {'MB':>7} {'caches MB':>9}")
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        payloads = _payloads()
        asyncio.run(_put(service, itertools.islice(payloads, WARM_PUTS)))
        _rest(service, 20)
        start, start_caches = _resident(service), _caches(service)
        _row(0, 0, start, start_caches)
        for begun in range(0, puts, PLAN_EVERY):
            count = min(PLAN_EVERY, puts - begun)
            began = time.perf_counter()
            asyncio.run(_put(service, itertools.islice(payloads, count)))
            rate = count / (time.perf_counter() - began)
            _row(begun + count, rate, _resident(service), _caches(service))
        peak = _resident(service, "VmHWM")
        _rest(service, idle)
        end, end_caches = _resident(service), _caches(service)
    ratio = (end - end_caches) / (start - start_caches)
    print(
        f"start {start / _MB:.0f} MB, of which caches {start_caches / _MB:.0f}; peak {peak / _MB:.0f}; after "
        f"{idle:.0f} s of rest {end / _MB:.0f}, of which caches {end_caches / _MB:.0f}; "
        f"without caches {ratio:.2f} times the start (at most {_LIMIT})"
    )


def _payloads() -> Iterator[bytes]:
    """Payloads of 64 bytes to 4 KB, of lines as logs have them, and with words that no other payload has."""
    rng = random.Random("steady")
    source = text(rng, 2_000_000)
    for number in itertools.count():
        size = rng.randrange(64, 4_000)
        at = rng.randrange(len(source) - size)
        yield f"request {number} of {rng.getrandbits(64):x}\n".encode() + source[at : at + size]


async def _put(service: Service, payloads: Iterator[bytes]) -> None:
    """Puts payloads, reads some of them again, and plans a removal at the end."""
    numbers = itertools.count()

    async def client() -> None:
        async with connect(service.url) as connection:
            for number, payload in zip(numbers, payloads, strict=False):
                body = await _ask(connection, "POST", f"/v1/artifacts/raw?session=s{number % 50}", payload)
                if number % READ_EVERY == 0:
                    artifact_id = body.partition(b'"id":"')[2].partition(b'"')[0].decode()
                    await _ask(connection, "GET", f"/v1/artifacts/{artifact_id}/read?max_tokens=300")
                    await _ask(connection, "GET", f"/v1/artifacts/{artifact_id}/windows?query=worker+licence")

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    async with connect(service.url) as connection:
        plan = b'{"job": "evict", "namespace": "default", "max_artifacts": 1000}'
        await _ask(connection, "POST", "/v1/admin/retention/plan", plan, "content-type: application/json\r\n")
        await _ask(connection, "GET", "/v1/artifacts?q=worker&limit=5")


async def _ask(connection: Connection, method: str, path: str, body: bytes = b"", headers: str = "") -> bytes:
    status, answer = await connection.ask(method, path, body, headers)
    if status not in {200, 201}:
        raise AssertionError(f"{method} {path} answered {status}: {answer[:300]!r}")
    return answer


def _rest(service: Service, seconds: float) -> None:
    """Waits, asking for the metrics as a monitoring system does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        service.client.get("/metrics")
        time.sleep(min(15.0, seconds))


def _resident(service: Service, field: str = "VmRSS") -> int:
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) * 1024


def _caches(service: Service) -> float:
    lines = service.client.get("/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("coatcheck_cache_bytes"))


def _row(puts: int, rate: float, resident: int, caches: float) -> None:
    print(f"{puts:9,} {rate:7.0f} {resident / _MB:7.1f} {caches / _MB:9.1f}", flush=True)
