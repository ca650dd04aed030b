"""What compacting a request costs, over HTTP: time and CPU time of the service, the first time and later.

Beside it, in the same run, what reading and writing the same JSON once costs Python, and what counting its tokens once
costs: whoever changes a body pays at least the first, whoever keeps it within a window the second. The first time
everything is counted and stored; after that the history is known.
"""

import json
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil

from bench.throughput import text
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.text.count import count_pieces
from support.service import Service, serving

ROUNDS = 3


def history(rng: random.Random, outputs: int, size: int) -> bytes:
    """A research turn in the format of Chat Completions."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Research this."}]
    for n in range(outputs):
        function = {"name": "read_page", "arguments": json.dumps({"url": f"https://example.org/{n}"})}
        calls = [{"id": f"c{n}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": "Looking.", "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text(rng, size).decode()})
    return json.dumps({"model": "gpt-5.6", "messages": messages}, ensure_ascii=False).encode()


class Peak:
    """The highest resident memory of a process while this is open."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.before = self.highest = process.memory_info().rss

    def _watch(self) -> None:
        while not self._stop.wait(0.002):
            self.highest = max(self.highest, self._process.memory_info().rss)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def floor(body: bytes) -> float:
    """Milliseconds of CPU to read and to write the same JSON."""
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.process_time()
        json.dumps(json.loads(body))
        times.append(1000 * (time.process_time() - began))
    return min(times)


def counting(body: bytes) -> float:
    """Milliseconds of CPU to count the tokens of everything that is said."""
    texts = [message["content"] for message in json.loads(body)["messages"]]
    tokenizer = load_tokenizer()
    began = time.process_time()
    for each in texts:
        _ = count_pieces(each.encode(), tokenizer).count
    return 1000 * (time.process_time() - began)


class Cost(NamedTuple):
    """Of one request."""

    wall: float
    """Milliseconds until the caller has the answer."""
    cpu: float
    """Milliseconds of the service's CPU."""
    memory: int
    """The peak above what was there before, in bytes."""
    answer: int
    """Bytes."""


def compact(service: Service, body: bytes, session: str) -> Cost:
    """What one request costs."""
    process = psutil.Process(service.process.pid)
    asked = b'{"session":"' + session.encode() + b'","policy":{"protect":"none"},"body":' + body + b"}"
    before, began = process.cpu_times(), time.perf_counter()
    with Peak(process) as peak:
        headers = {"content-type": "application/json"}
        response = service.client.post("/v1/context/compact", content=asked, headers=headers)
        wall = 1000 * (time.perf_counter() - began)
    after = process.cpu_times()
    assert response.status_code == 200, response.text
    spent = after.user + after.system - before.user - before.system
    return Cost(wall, 1000 * spent, peak.highest - peak.before, len(response.content))


def first_and_later(body: bytes) -> tuple[Cost, list[Cost]]:
    """What a body costs a new service that is warm, and what it costs once more, several times."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        _ = compact(service, history(random.Random(1), 16, 100_000), "warm")
        first = compact(service, body, "s")
        return first, [compact(service, body, "s") for _ in range(ROUNDS)]


def run() -> None:
    """Print the table."""
    rng = random.Random(33)
    bodies = {
        "1 MB, 4 outputs of 250 KB": history(rng, 4, 250_000),
        "1 MB, 40 outputs of 25 KB": history(rng, 40, 25_000),
        "1 MB, 250 outputs of 4 KB, all carded": history(rng, 250, 4_000),
        "1 MB, 400 outputs of 2.5 KB that stay": history(rng, 400, 2_500),
        "20 MB, 40 outputs of 500 KB": history(rng, 40, 500_000),
        "20 MB, one output": history(rng, 1, 20_000_000),
        "20 MB, 8,000 outputs of 2.5 KB that stay": history(rng, 8_000, 2_500),
    }
    times = f"{'first':>6} {'cpu':>6}   {'then':>5} {'cpu':>5} ms"
    print(f"{'body':>40} | {'floor':>6} {'count':>6} | {times} | answer")
    for name, body in bodies.items():
        first, later = first_and_later(body)
        floors = f"{floor(body):6.0f} {counting(body):6.0f}"
        then = min(each.wall for each in later), min(each.cpu for each in later)
        times = f"{first.wall:6.0f} {first.cpu:6.0f}   {then[0]:5.0f} {then[1]:5.0f}   "
        print(f"{name:>40} | {floors} | {times} | {first.answer:,}", flush=True)


if __name__ == "__main__":
    run()
