"""Reading JSON by path in a 100 MB document: seconds and memory, beside decoding it whole with msgspec."""

import asyncio
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

import msgspec
import psutil

from coatcheck.adapters.sql.engine import sqlite_url
from coatcheck.adapters.sql.schema import migrate
from coatcheck.usecases.reading.read_json import JsonAnswer
from jsonpath.json_harness import JsonHarness, plainly
from reading.reading_harness import reading_store

RECORDS = 250_000
PATHS = (
    "$.meta.source",
    "$.items[10].addr.city",
    "/items/249990/addr/city",
    "$.last",
    "$.items[-1].id",
    "$.items[200000:200010].id",
    "$.items[*].id",
    "$.items[?@.status=='failed'].id",
    "$.items[?match(@.name, 'user 2499..')].id",
    "$.items..zip",
)


def document() -> bytes:
    """About 100 MB on one line, with escapes in every record."""
    rng = random.Random(1)
    pad = "".join(rng.choices(["word ", '"quoted" ', "line\n", "é", "1234567890 "], k=60))
    items = [
        {
            "id": n,
            "status": "failed" if rng.random() < 0.01 else "ok",
            "name": f"user {n}",
            "addr": {"city": "Berlin", "zip": f"{n:06}"},
            "tags": ["a", "b", "c"],
            "body": pad[: rng.randint(100, 400)],
        }
        for n in range(RECORDS)
    ]
    return msgspec.json.encode({"meta": {"source": "bench"}, "items": items, "last": 1})


async def all_pages(desk: JsonHarness, number: int, path: str) -> tuple[int, float]:
    """Follow `next` to the end: how many calls, and the longest."""
    calls, longest, cursor = 0, 0.0, None
    while True:
        began = time.perf_counter()
        answer: JsonAnswer = await desk.ask(number, path, cursor=cursor, max_tokens=8_000)
        longest = max(longest, time.perf_counter() - began)
        calls += 1
        cursor = answer.next
        if cursor is None:
            return calls, longest


class Watch:
    """The most resident memory that this process adds while it is open, looked at every 2 ms."""

    def __enter__(self) -> Self:
        self._process = psutil.Process()
        self._begin = self._most = self._process.memory_info().rss
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._done.wait(0.002):
            self._most = max(self._most, self._process.memory_info().rss)

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def mib(self) -> float:
        """MiB."""
        return (self._most - self._begin) / 1024**2


async def measure(data: bytes) -> None:
    """Print one line a path."""
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "template.db"
        migrate(sqlite_url(template))
        with reading_store(Path(folder), template) as store:
            await _measure(JsonHarness(store), data)


async def _measure(desk: JsonHarness, data: bytes) -> None:
    number = await desk.put(data)
    await desk.ask(number, "$.meta")  # warm: the tokenizer
    for path in PATHS:
        began = time.perf_counter()
        with Watch() as watch:
            answer = await desk.ask(number, path)
        took = time.perf_counter() - began
        total = f"{'' if answer.total_exact else 'at least '}{answer.total:,}"
        print(f"{path:42} {took:6.3f} s, +{watch.mib:.0f} MiB; {total} found, {len(answer.values)} shown", flush=True)
    calls, longest = await all_pages(desk, number, "$.items[?@.status=='failed'].id")
    print(f"every failed one: {calls} calls, the longest {longest:.2f} s", flush=True)


def whole(data: bytes) -> None:
    """The peer: decode it all, then ask."""
    began = time.perf_counter()
    with Watch() as watch:
        value: Any = msgspec.json.decode(data)
    decoded = time.perf_counter() - began
    print(f"peer, msgspec.json.decode of the whole: {decoded:.3f} s, +{watch.mib:.0f} MiB", flush=True)
    for path in ("/items/249990/addr/city", "$.items[?@.status=='failed'].id"):
        began = time.perf_counter()
        found = len(plainly(value, path))
        print(f"  then {path}: {time.perf_counter() - began:.3f} s; {found:,} found", flush=True)


def run() -> None:
    """Print all measurements."""
    data = document()
    print(f"{len(data) / 1e6:.0f} MB, {RECORDS:,} records, one line", flush=True)
    asyncio.run(measure(data))
    whole(data)
