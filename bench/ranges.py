"""Small reads at random places of a 500 MB artifact: by byte range over HTTP, by line and by character."""

import asyncio
import random
import tempfile
import time
from pathlib import Path

import httpx

from bench.streams import upload
from bench.throughput import text
from bench.wire import Connection, Timings, connect
from support.service import serving

SIZE = 500_000_000
WANTED = 4096


async def timed(c: Connection, requests: list[tuple[str, str]]) -> Timings:
    """Ask one after the other on one connection."""
    timings = Timings()
    for path, headers in requests:
        began = time.perf_counter()
        status, _ = await c.ask("GET", path, headers=headers)
        timings.each.append(time.perf_counter() - began)
        assert status in {200, 206}, (status, path)
    return timings


async def measure(url: str) -> None:
    """Print one line a way of reading."""
    rng = random.Random(2)
    await upload(url, text(rng, 8_000_000), SIZE)
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        item = (await client.get("/v1/artifacts")).json()["items"][0]
    base = f"/v1/artifacts/{item['id']}"
    lines, chars = item["size"]["lines"], item["size"]["chars"]

    def bytes_at(start: int) -> tuple[str, str]:
        return f"{base}/content", f"range: bytes={start}-{start + WANTED - 1}\r\n"

    ways = {
        "bytes anywhere": [bytes_at(rng.randrange(SIZE - WANTED)) for _ in range(1000)],
        "bytes in the first MB": [bytes_at(rng.randrange(1_000_000)) for _ in range(500)],
        "bytes in the last MB": [bytes_at(SIZE - WANTED - rng.randrange(1_000_000)) for _ in range(500)],
        "lines anywhere": [
            (f"{base}/read?unit=line&offset={rng.randrange(1, lines - 50)}&limit=40", "") for _ in range(500)
        ],
        "characters anywhere": [
            (f"{base}/read?unit=char&offset={rng.randrange(chars - WANTED)}&limit={WANTED}", "") for _ in range(500)
        ],
    }
    async with connect(url) as c:
        for name, requests in ways.items():
            t = await timed(c, requests)
            print(f"{WANTED} {name} of {SIZE // 10**6} MB: p50 {t.at(0.5):.2f} ms, p99 {t.at(0.99):.2f} ms", flush=True)


def run() -> None:
    """Start a service and measure."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        asyncio.run(measure(service.url))
