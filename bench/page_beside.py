"""What puts are like while people look at the administrator's page, beside nobody and beside as many API requests.

Rounds are short and go in blocks: each block has one round of every sort, in an order that is drawn, and a round is
compared only with the round of its own block in which nobody looked. So whatever else the machine does, and the growth
of the store, falls on all sorts alike. The same comparison of two rounds with nobody says what the method cannot tell
apart. A rate that nobody's looking reaches is among the sorts, since only there a request's cost is large enough to be
divided by the number of requests.
"""

import asyncio
import contextlib
import itertools
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.throughput import OK, text
from bench.wire import connect, load
from support.service import Service

CLIENTS = 8
SIZE = 4_000
BLOCKS = 40
SECONDS = 2.0
"""How long a round puts."""
PAGES = (
    "/",
    "/ui/artifacts",
    "/ui/sessions",
    "/ui/session?name=bench",
    "/ui/usage",
    "/ui/artifacts?tool_name=bash",
)
LISTS = ("/v1/artifacts", "/v1/artifacts?tool_name=bash", "/v1/artifacts?session=bench")
NOBODY = "nobody"
MANY_PAGES = "10 pages a second"
MANY_LISTS = "10 lists of the API a second"
_TICK = os.sysconf("SC_CLK_TCK")
_POOL = 200
_DOUBT = 0.025
"""The chance that a median lies below an interval, and that it lies above."""


@dataclass(frozen=True)
class Sort:
    """A sort of round: what is asked for beside the puts."""

    paths: Sequence[str]
    rate: float
    """Requests a second; 1 is three people who each open a page every three seconds."""


SORTS = {
    NOBODY: Sort(PAGES, 0),
    "nobody again: the noise": Sort(PAGES, 0),
    "a page a second": Sort(PAGES, 1),
    "a list of the API a second": Sort(LISTS, 1),
    MANY_PAGES: Sort(PAGES, 10),
    MANY_LISTS: Sort(LISTS, 10),
}


@dataclass(frozen=True)
class Round:
    """What a round measured."""

    puts: int
    per_second: float
    processor: float
    """Milliseconds of the service's processor time."""
    p99: float
    """Milliseconds."""
    asked: int
    """Requests beside the puts that were answered."""

    @property
    def per_put(self) -> float:
        """Milliseconds of processor time a put, with that of the other requests."""
        return self.processor / self.puts


async def compare(service: Service, blocks: int = BLOCKS, seconds: float = SECONDS) -> None:
    """Print each sort beside nobody, then what a request costs."""
    rng = random.Random(23)
    puts = _puts(rng)
    for sort in SORTS.values():  # whatever is made once is made before the first block
        await _round(service, puts, sort, seconds)
    measured = [await _block(service, puts, rng.sample([*SORTS], k=len(SORTS)), seconds) for _ in range(blocks)]
    print(f"\n{CLIENTS} clients put {SIZE:,} bytes; {blocks} blocks of one round of each sort, {seconds:g} s a round")
    print("of the block's round with nobody: median of the ratios (95 % interval of the median)")
    print(f"{'':<28} | {'puts a second':<22} | {'processor time a put':<22} | 99th percentile")
    for name in SORTS:
        if name != NOBODY:
            _print_ratios(name, measured)
    for name in (MANY_PAGES, MANY_LISTS):
        _print_cost(name, measured)
    low, middle, high = median([each[MANY_PAGES].per_put / each[MANY_LISTS].per_put for each in measured])
    print(f"processor time a put beside pages, of that beside as many lists: {middle:.3f} ({low:.3f} to {high:.3f})")


async def _block(
    service: Service, puts: Iterator[tuple[str, str, bytes]], order: list[str], seconds: float
) -> dict[str, Round]:
    return {name: await _round(service, puts, SORTS[name], seconds) for name in order}


def _print_ratios(name: str, measured: list[dict[str, Round]]) -> None:
    pairs = [(each[name], each[NOBODY]) for each in measured]
    columns = (
        [one.per_second / other.per_second for one, other in pairs],
        [one.per_put / other.per_put for one, other in pairs],
        [one.p99 / other.p99 for one, other in pairs],
    )
    shown = ["{1:.3f} ({0:.3f} to {2:.3f})".format(*median(ratios)) for ratios in columns]
    print(f"{name:<28} | {shown[0]:<22} | {shown[1]:<22} | {shown[2]}")
    for what, ratios, worse in (("puts a second", columns[0], -1), ("processor time a put", columns[1], 1)):
        low, _, high = median(ratios)
        if low <= 1 <= high:
            most = 100 * max(worse * (low - 1), worse * (high - 1))
            print(f"{'':<28}   {what}: no difference can be told; more than {most:.1f} % worse is ruled out")
        else:
            print(f"{'':<28}   {what}: a difference of {100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %")


def _print_cost(name: str, measured: list[dict[str, Round]]) -> None:
    """Processor time of a request: what a round took beyond its puts, each at the price that it has with nobody."""
    beyond = [
        (each[name].processor - each[name].puts * each[NOBODY].per_put) / each[name].asked
        for each in measured
        if each[name].asked
    ]
    low, middle, high = median(beyond)
    print(
        f"{name:<28} | {middle:.2f} ms of processor time a request ({low:.2f} to {high:.2f}): "
        f"at one a second {middle / 10:.2f} % of a processor ({low / 10:.2f} to {high / 10:.2f})"
    )


def median(values: Sequence[float]) -> tuple[float, float, float]:
    """The median between the ends of its 95 % interval, which takes nothing for granted about the values' distribution.

    The ends are order statistics: the number of values below the true median is that of heads of fair coins. Fewer than
    six values have no such interval; then the ends are the least and the largest.
    """
    ordered, count = sorted(values), len(values)
    below, chance = 0, 0.0
    while below < count // 2:
        chance += math.comb(count, below) / 2**count
        if chance > _DOUBT:
            break
        below += 1
    low = max(0, below - 1)
    return ordered[low], statistics.median(ordered), ordered[count - 1 - low]


def _puts(rng: random.Random) -> Iterator[tuple[str, str, bytes]]:
    """Payloads without end, no two of them alike."""
    pool = [text(rng, SIZE) for _ in range(_POOL)]
    for number in itertools.count():
        head = b"%016d\n" % number
        yield "POST", "/v1/artifacts/raw?tool_name=bash&session=bench", head + pool[number % _POOL][len(head) :]


async def _round(service: Service, puts: Iterator[tuple[str, str, bytes]], sort: Sort, seconds: float) -> Round:
    end = time.perf_counter() + seconds
    before = _processor(service.process.pid)
    looking = asyncio.create_task(_look(service.url, sort, end))
    try:
        done = await load(service.url, itertools.takewhile(_until(end), puts), CLIENTS, OK)
        asked = await looking
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
    spent = 1000 * (_processor(service.process.pid) - before)
    return Round(len(done.each), done.per_second(), spent, done.at(0.99), asked)


def _until(end: float) -> Callable[[object], bool]:
    return lambda _: time.perf_counter() < end


async def _look(url: str, sort: Sort, end: float) -> int:
    """Asks at a steady rate until the end; returns how often it was answered. A late answer makes the next one late."""
    if sort.rate == 0:
        return 0
    asked, at = 0, time.perf_counter() + 0.5 / sort.rate
    async with connect(url) as connection:
        for path in itertools.cycle(sort.paths):
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            if time.perf_counter() >= end:
                break
            status, _ = await connection.ask("GET", path)
            assert status in OK, path
            asked, at = asked + 1, at + 1 / sort.rate
    return asked


def _processor(process: int) -> float:
    """Seconds of processor time that a process has had."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK
