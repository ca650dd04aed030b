"""How often a kind is told from the bytes alone: the tool's name, the media type and the file's name are withheld.

Prints a confusion table (rows: what it is; columns: what it was taken for) and what was mistaken, for the half of the
set that the classifier's numbers were not chosen on.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from bench.kinds_system import system
from coatcheck.core.artifact import SAMPLE_BYTES, DeclaredMetadata, Kind, PayloadSample
from coatcheck.core.kinds.classify import classify
from coatcheck.core.kinds.description import PayloadProbe
from kinds.corpus import Item, assemble
from kinds.sets import everywhere

PER_KIND: Final = 200
_SHORT: Final = {
    Kind.COMMAND_OUTPUT: "output",
    Kind.CODE_OR_FILE: "code",
    Kind.SEARCH_RESULTS: "search",
    Kind.WEB_PAGE: "page",
}


def sample_of(data: bytes) -> PayloadSample:
    if len(data) <= 2 * SAMPLE_BYTES:
        return PayloadSample(data, b"", len(data))
    return PayloadSample(data[:SAMPLE_BYTES], data[-SAMPLE_BYTES:], len(data))


def judge(items: list[Item]) -> Iterator[tuple[Item, Kind]]:
    for item in items:
        yield item, classify(PayloadProbe(sample_of(item.data), DeclaredMetadata()))


def table(judged: list[tuple[Item, Kind]]) -> str:
    counts = Counter((item.kind, kind) for item, kind in judged)
    names = [_SHORT.get(kind, kind.value) for kind in Kind]
    rows = [f"| {'':7} | {' | '.join(f'{name:>6}' for name in names)} | right |"]
    rows.append(f"|---|{'---|' * (len(names) + 1)}")
    for kind, name in zip(Kind, names, strict=True):
        total = sum(counts[kind, other] for other in Kind)
        cells = " | ".join(f"{counts[kind, other] or '.':>6}" for other in Kind)
        rows.append(f"| {name:7} | {cells} | {counts[kind, kind] / max(total, 1):5.1%} |")
    return "\n".join(rows)


def share(judged: list[tuple[Item, Kind]]) -> float:
    return sum(item.kind is kind for item, kind in judged) / max(len(judged), 1)


def report(name: str, items: list[Item], *, wrong: bool) -> None:
    begin = time.process_time()
    judged = list(judge(items))
    each = (time.process_time() - begin) / max(len(items), 1)
    print(f"\n{name}: {len(items)} payloads, {share(judged):.1%} right, {each * 1e6:.0f} us each\n")
    print(table(judged))
    if wrong:
        for item, kind in judged:
            if item.kind is not kind:
                print(f"  {item.kind.value} taken for {kind.value}: {item.family}, {item.name}, {len(item.data)} bytes")


def run() -> None:
    """Both halves of the whole set; `--wrong` lists the mistakes of the half that the numbers were chosen on."""
    with tempfile.TemporaryDirectory() as scratch:
        items = assemble(chain(everywhere(Path(scratch)), system(Path(scratch))), PER_KIND)
    report("test half", [item for item in items if item.half == "test"], wrong=False)
    report("tuning half", [item for item in items if item.half == "tune"], wrong="--wrong" in sys.argv)
