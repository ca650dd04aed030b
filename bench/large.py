"""Payloads of 5 MB, 100 MB and 1 GB of ordinary lines in which one is unlike the others: its card, and what it costs.

The line states a failure, or has no such word at all and stands out by its form alone. Tallies are held against a count
made here. Beside each upload stands what a script needs that hashes the same bytes and writes them to a synced file.
"""

import hashlib
import json
import os
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from support.service import Service, start

SIZES: Final = (5_000_000, 100_000_000, 1_000_000_000)
LEVELS: Final = ("INFO", "DEBUG", "WARN")
HOSTILE: Final = 100_000_000
FAILURE: Final = b"2026-11-03 10:00:07,123 ERROR worker-3 connection to db-2 lost: broken pipe, 14 requests dropped\n"
ODD: Final = b"the blue cat sat down beside an empty harbour\n"
_BLOCKS: Final = 16
_BLOCK: Final = 2 * 1024**2
_LINE: Final = "2026-11-03 10:{:02d}:07,{:03d} {:5} worker-{:d} served request id={:09d} in {:d} ms\n"


class Payload(NamedTuple):
    """Blocks of whole lines, by number, and in which order they come."""

    blocks: list[bytes]
    order: list[int]
    levels: Counter[str]
    line: bytes
    number: int
    """Of the line that is unlike the others."""

    def pieces(self) -> Iterator[bytes]:
        """Its bytes, in pieces."""
        return (self.blocks[number] for number in self.order)


def made(size: int, line: bytes, share: float) -> Payload:
    """About `size` bytes, with a line after this share of them."""
    rng = random.Random(size)
    blocks: list[bytes] = []
    counts: list[Counter[str]] = []
    for _ in range(_BLOCKS):
        levels = rng.choices(LEVELS, [90, 20, 1], k=_BLOCK // 90)
        rows = [
            _LINE.format(
                rng.randrange(60), rng.randrange(1000), level, rng.randrange(16), rng.randrange(10**9), n % 500
            )
            for n, level in enumerate(levels)
        ]
        blocks.append("".join(rows).encode())
        counts.append(Counter(levels))
    order = [rng.randrange(_BLOCKS) for _ in range(max(1, round(size / len(blocks[0]))))]
    total = sum((counts[number] for number in order), Counter[str]())
    at = int(share * len(order))
    lines = [block.count(b"\n") for block in blocks]
    before = sum(lines[number] for number in order[:at])
    split = blocks[order[at]].index(b"\n", len(blocks[order[at]]) // 3) + 1
    blocks.append(blocks[order[at]][:split] + line + blocks[order[at]][split:])
    order[at] = _BLOCKS
    if b"ERROR" in line:
        total["ERROR"] += 1
    return Payload(blocks, order, total, line, before + blocks[-1].count(b"\n", 0, split) + 1)


def posted(service: Service, payload: Payload) -> tuple[float, float, dict[str, object]]:
    """Seconds of the whole upload, those after the last byte, and the receipt."""
    address = urlsplit(service.url)
    size = sum(map(len, payload.pieces()))
    with socket.create_connection((address.hostname or "", address.port or 0)) as connection:
        head = f"POST /v1/artifacts/raw?card_tokens=600&inline_tokens=0 HTTP/1.1\r\nhost: {address.netloc}\r\n"
        connection.sendall(f"{head}content-length: {size}\r\nconnection: close\r\n\r\n".encode())
        began = time.perf_counter()
        for piece in payload.pieces():
            connection.sendall(piece)
        last = time.perf_counter()
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        ended = time.perf_counter()
    status, _, body = answer.partition(b"\r\n\r\n")
    assert b" 201 " in status[:20], status
    return ended - began, ended - last, json.loads(body[body.index(b"{") : body.rindex(b"}") + 1])


def floor(folder: Path, payload: Payload) -> float:
    """Seconds in which the same bytes are hashed and written to a synced file."""
    began = time.perf_counter()
    digest = hashlib.sha256()
    with (folder / "floor").open("wb") as file:
        for piece in payload.pieces():
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    took = time.perf_counter() - began
    (folder / "floor").unlink()
    return took


def peak(service: Service) -> int:
    """The most resident memory that the service's process ever had, in bytes."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def failings(payload: Payload, text: str) -> list[str]:
    """What the card lacks, or says wrongly."""
    lines = text.split("\n")
    shown = [line for line in lines if line == payload.line.decode().strip()]
    ranges = [line[2:].split(",")[0].split("-") for line in lines if line.startswith("¦ ") and line[2:3].isdigit()]
    told = ", ".join(f"{level} {count}" for level, count in payload.levels.most_common())
    out = [] if shown else ["the line is not on it"]
    out += [] if any(int(each[0]) <= payload.number <= int(each[-1]) for each in ranges) else ["its number is not"]
    return out + ([] if f"Levels: {told}" in lines else [f"the tally is not {told}"])


def run() -> None:
    """Print a line for each size and each of the two lines."""
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for size in SIZES:
        for name, line in (("a failure", FAILURE), ("an odd line", ODD)):
            payload = made(size, line, 0.37)
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                bare = floor(root, payload)
                service = start(root / "data", environment=environment)
                try:
                    idle = peak(service)
                    took, after, receipt = posted(service, payload)
                    most = peak(service)
                finally:
                    service.stop()
            wrong = "; ".join(failings(payload, str(receipt["text"])))
            print(
                f"{size / 1e6:6.0f} MB with {name:11}: {wrong or 'on the card, tallies right'}; "
                f"{1000 * after:5.0f} ms after the last byte; {size / took / 1e6:4.0f} MB/s "
                f"(hashed and written {size / bare / 1e6:4.0f} MB/s); "
                f"peak {most / 2**20:.0f} MiB, idle {idle / 2**20:.0f}",
                flush=True,
            )
    with tempfile.TemporaryDirectory() as folder:
        service = start(Path(folder) / "data", environment=environment)
        try:
            for name, block in _hostile().items():
                payload = Payload([block], [0] * max(1, HOSTILE // len(block)), Counter(), b"", 0)
                took, after, _ = posted(service, payload)
                size = len(block) * len(payload.order)
                print(
                    f"{size / 1e6:6.0f} MB of {name}: {1000 * after:5.0f} ms after the last byte; "
                    f"{size / took / 1e6:4.0f} MB/s; peak so far {peak(service) / 2**20:.0f} MiB",
                    flush=True,
                )
        finally:
            service.stop()


def _hostile() -> dict[str, bytes]:
    powers = [26**power for power in range(5)]
    shapes = [bytes([97 + n // power % 26 for power in powers]) + b"\n" for n in range(1_000_000)]
    return {
        "one line": b"abcdefghi " * 200_000,
        "a million distinct shapes": b"".join(shapes),
        "one shape": b"the same line 7\n" * 60_000,
        "carriage returns": b"\r" * 1_000_000,
        "an escape in every second byte": b"\x1ba" * 500_000,
        "lines that deny errors": b"0 errors, 0 failures\n" * 50_000,
        "lines that state errors": b"".join(b"error: thing %d broke in part %x\n" % (n, n * n) for n in range(30_000)),
    }
