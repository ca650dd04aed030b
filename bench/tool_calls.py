"""What a model waits for: calls of the declared tool on artifacts of ordinary sizes, over HTTP, in milliseconds.

Beside them, in the same run, the floor: the same server telling which tools it has, which touches no artifact.
"""

import asyncio
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.search_results import html_page
from bench.throughput import text
from bench.wire import Connection, Timings, connect
from support.service import serving

TIMES = 40


def _records(rng: random.Random, count: int) -> bytes:
    rows = [{"id": n, "status": rng.choice(["ok", "failed"]), "name": f"user {n}", "tags": ["a"]} for n in range(count)]
    return json.dumps({"items": rows}).encode()


def artifacts(rng: random.Random) -> dict[str, tuple[str, bytes]]:
    """Media type and bytes of what agents keep most."""
    return {
        "log, 40 KB": ("text/plain", text(rng, 40_000)),
        "log, 400 KB": ("text/plain", text(rng, 400_000)),
        "page, 60 KB": ("text/html", html_page(rng, 60_000).encode()),
        "JSON, 200 KB": ("application/json", _records(rng, 3_000)),
    }


def calls(media_type: str) -> dict[str, dict[str, Any]]:
    """What a model asks, by what it asks it for."""
    asked: dict[str, dict[str, Any]] = {
        "beginning": {},
        "lines 200-280": {"offset": 200, "limit": 80},
        "pattern": {"pattern": "cop[a-z]+|licen[cs]e"},
        "query": {"query": "who gave the license for copper"},
        "outline": {"section": "outline"},
    }
    if media_type == "application/json":
        asked["path"] = {"path": "$.items[2500].name"}
        asked["filter that 99 of 3,000 pass"] = {"path": "$.items[?@.id > 2900].name"}
        asked["filter that half of 3,000 pass, a full page"] = {"path": "$.items[?@.status=='failed'].id"}
    return asked


async def _timed(c: Connection, method: str, path: str, body: bytes) -> Timings:
    timings = Timings()
    for n in range(TIMES + 3):
        began = time.perf_counter()
        status, answer = await c.ask(method, path, body, "content-type: application/json\r\n")
        assert status == 200, answer
        if n >= 3:
            timings.each.append(time.perf_counter() - began)
    return timings


async def _all(url: str) -> None:
    async with connect(url) as c:
        floor = await _timed(c, "GET", "/v1/tools", b"")
        print(f"floor, GET /v1/tools: p50 {floor.at(0.5):.1f} ms", flush=True)
        for name, (media_type, data) in artifacts(random.Random(3)).items():
            status, body = await c.ask("POST", "/v1/artifacts/raw", data, f"content-type: {media_type}\r\n")
            assert status == 201, body
            number = json.loads(body)["id"]
            for what, arguments in calls(media_type).items():
                call = {"name": "read_artifact", "arguments": {"artifact_id": number, **arguments}}
                timings = await _timed(c, "POST", "/v1/tools/call", json.dumps(call).encode())
                print(f"{name}, {what}: p50 {timings.at(0.5):.1f} ms, p99 {timings.at(0.99):.1f} ms", flush=True)


def run() -> None:
    """Start a service and measure."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        asyncio.run(_all(service.url))
