"""Cards: recognising, planning and cutting, for each kind at three sizes, in one thread and in CPU time.

The floor is counting the tokens of the card's own text once, which no card can do without. What large payloads cost
after their last byte is what ends their survey, and what their ends and its fragments cost.
"""

import hashlib
import json
import random
import statistics
import time
from collections.abc import Callable

from bench.throughput import text
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core import card
from coatcheck.core.artifact import SAMPLE_BYTES, DeclaredMetadata, Measure, PayloadSample
from coatcheck.core.card.model import CardInput
from coatcheck.core.encoding.payload_encoder import PayloadEncoder
from coatcheck.core.kinds import recognise
from coatcheck.core.survey import Survey, Surveyor
from coatcheck.core.tokens import Tokenizer
from coatcheck_client.contract.answers import TokenCount

SIZES = {"16 KB": 16_000, "1 MB": 1_000_000, "100 MB": 100_000_000}
LIMITS = {"16 KB": 3.0, "1 MB": 25.0, "100 MB": 60.0}
"""Milliseconds that the median should stay under on a machine that does nothing else."""
BUDGET = 600
TIMES = 21
ARTIFACT = "art_830561827364510297"


def _log(rng: random.Random, size: int) -> bytes:
    rows = text(rng, size).split(b"\n")
    for place in range(len(rows) // 2, len(rows), 400):
        rows[place] = b"2026-03-01T12:30:00Z ERROR src/main/App.java:[27,12] incompatible types"
    return b"\n".join([*rows, b"BUILD FAILURE", b"Process exited with code 1", b""])


def _code(rng: random.Random, size: int) -> bytes:
    words = text(rng, size // 3).decode("utf-8", "replace").split()
    parts: list[str] = ["import os\n"]
    length = 0
    while length < size:
        name = f"{rng.choice(words).strip('.,:;').lower()}_{rng.randrange(1000)}"
        part = f"\n\ndef {name}(value: int) -> int:\n" + "".join(
            f'    {name}_{n} = "{" ".join(rng.choices(words, k=5))}"\n' for n in range(8)
        )
        parts.append(part)
        length += len(part)
    return "".join(parts).encode()


def _diff(rng: random.Random, size: int) -> bytes:
    parts: list[str] = []
    length = number = 0
    while length < size:
        number += 1
        name = f"src/f{number}.py"
        body = [f"{rng.choice('+- ')}{line}" for line in text(rng, 1_500).decode("utf-8", "replace").split("\n")]
        old, new = (sum(line[0] in f" {sign}" for line in body) for sign in "-+")
        head = f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1,{old} +1,{new} @@\n"
        parts.append("\n".join([head[:-1], *body, ""]))
        length += len(parts[-1])
    return "".join(parts).encode()


def _table(rng: random.Random, size: int) -> bytes:
    rows = [b"id,name,price,place"]
    while len(rows) * 30 < size:
        rows.append(
            b"%d,thing %d,%d.5,row %d" % (len(rows), rng.randrange(999), rng.randrange(99), rng.randrange(9999))
        )
    return b"\n".join(rows)


def _json(rng: random.Random, size: int) -> bytes:
    records = [
        {"id": n, "name": f"thing {rng.randrange(999)}", "owner": {"login": "ann", "admin": n % 2 == 0}, "tags": ["a"]}
        for n in range(size // 95)
    ]
    return json.dumps(records).encode()


def _listing(rng: random.Random, size: int) -> bytes:
    rows = [b"./src/part%d/module_%d.py" % (rng.randrange(40), rng.randrange(9999)) for _ in range(size // 32)]
    return b"\n".join(rows)


def _prose(rng: random.Random, size: int) -> bytes:
    words = [word for word in text(rng, min(size, 200_000)).decode("utf-8", "replace").split() if word.isalpha()]
    parts: list[str] = []
    length = 0
    while length < size:
        sentence = " ".join(rng.choices(words, k=rng.randrange(8, 24))).capitalize() + "."
        parts.append(sentence + ("\n\n" if rng.random() < 0.2 else "\n" if rng.random() < 0.3 else " "))
        length += len(parts[-1])
    return "".join(parts).encode()[:size]


KINDS: dict[str, tuple[Callable[[random.Random, int], bytes], DeclaredMetadata]] = {
    "log": (_log, DeclaredMetadata()),
    "command_output": (_log, DeclaredMetadata(tool_name="bash")),
    "list of paths": (_listing, DeclaredMetadata(tool_name="bash")),
    "code_or_file": (_code, DeclaredMetadata(tool_name="read_file")),
    "diff": (_diff, DeclaredMetadata()),
    "table": (_table, DeclaredMetadata()),
    "json": (_json, DeclaredMetadata()),
    "text": (_prose, DeclaredMetadata()),
}


def sampled(data: bytes, size: int, tokenizer: Tokenizer) -> tuple[PayloadSample, Measure]:
    """What an ingest hands over of a payload of this size, which is `data`, or begins and ends like it."""
    if size <= 2 * SAMPLE_BYTES:
        encoder = PayloadEncoder(tokenizer)
        encoder.end(data)
        encoder.count()
        return encoder.sample(), encoder.measure()
    sample = PayloadSample(data[:SAMPLE_BYTES], data[-SAMPLE_BYTES:], size)
    measure = Measure(
        size=sample.size,
        lines=max(1, data.count(b"\n") * size // len(data)),
        chars=sample.size,
        tokens=TokenCount(sample.size // 4, exact=False),
        sha256=hashlib.sha256(data).digest(),
        utf8=True,
    )
    return sample, measure


def surveyed(data: bytes, size: int) -> Callable[[], Survey | None]:
    """What returns the survey, once all bytes have arrived; feeding it before is the upload's cost."""
    if size <= 2 * SAMPLE_BYTES:
        return lambda: None
    surveyor = Surveyor()
    surveyor.feed(data)
    return surveyor.finish


def timed(data: bytes, size: int, said: DeclaredMetadata, tokenizer: Tokenizer) -> tuple[str, list[float], list[float]]:
    """The kind, and the seconds of every card and of every floor."""
    sample, measure = sampled(data, size, tokenizer)
    kind = ""
    each: list[float] = []
    floor: list[float] = []
    for _ in range(TIMES):
        survey_of = surveyed(data, size)
        began = time.process_time()
        survey = survey_of()
        facts = recognise(sample, said, survey)
        inputs = CardInput(ARTIFACT, said, measure, facts, sample, BUDGET, tokenizer, survey=survey)
        made = card.cut(inputs)
        cut = time.process_time()
        tokenizer.count(made[1])
        floor.append(time.process_time() - cut)
        each.append(cut - began)
        kind = facts.kind.value
    return kind, each, floor


def run() -> None:
    """Print a line for each kind and size."""
    tokenizer = load_tokenizer()
    for name, (make, said) in KINDS.items():
        for size_name, size in SIZES.items():
            data = make(random.Random(size), min(size, 2_000_000))
            kind, each, floor = timed(data, size, said, tokenizer)
            middle, least = statistics.median(each) * 1000, statistics.median(floor) * 1000
            over = "" if middle < LIMITS[size_name] else f"  over {LIMITS[size_name]:.0f} ms"
            times = (
                f"median {middle:5.2f} ms, best {min(each) * 1000:5.2f} ms, {middle / least:5.1f} x counting the card"
            )
            print(f"{name:15} {size_name:>6} ({kind}): {times}{over}", flush=True)
