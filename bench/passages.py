"""Query windows over HTTP: log lines of 2 MB and 100 MB with one planted sentence, rare and frequent words."""

import asyncio
import json
import random
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

from bench.throughput import text
from bench.wire import Connection, Timings, connect
from support.service import serving

SIZES = {"2 MB": 2_000_000, "100 MB": 100_000_000}
NEEDLE = b"\nThe lighthouse keeper of Ouessant reported 17 ships in the fog.\n"
QUERIES = {
    "rare words": "how many ships did the lighthouse keeper see in the fog",
    "rare and frequent words": "lighthouse worker license info copyright",
    "frequent words": "license work copyright",
    "no such words": "zeppelin über Ångström",
    "Chinese": "数据库连接失败的原因是什么",
}
TIMES = 5


async def measure(c: Connection, name: str, size: int) -> None:
    """Store one document and print one line a query."""
    rng = random.Random(size)
    block = text(rng, min(size, 8_000_000))
    data = (block * (size // len(block) + 1))[: size // 3]
    data += NEEDLE + (block * (size // len(block) + 1))[: size - len(data) - len(NEEDLE)]
    status, body = await c.ask("POST", "/v1/artifacts/raw", data)
    assert status == 201, body
    number = json.loads(body)["id"]
    for what, query in QUERIES.items():
        timings = Timings()
        for _ in range(TIMES):
            began = time.perf_counter()
            status, body = await c.ask("GET", f"/v1/artifacts/{number}/windows?{urlencode({'query': query})}")
            timings.each.append(time.perf_counter() - began)
            assert status == 200, body
        found = json.loads(body)
        told = f"{len(found['windows'])} windows, {found['tokens']} tokens, {found['stopped']}"
        print(f"{name}, {what}: best {timings.at(0):.1f} ms, median {timings.at(0.5):.1f} ms; {told}", flush=True)


async def _all(url: str) -> None:
    async with connect(url) as c:
        for name, size in SIZES.items():
            await measure(c, name, size)


def run() -> None:
    """Start a service and measure."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        asyncio.run(_all(service.url))
