"""Realistic payloads of many megabytes, the same ones for the same seed, each with one needle.

What surrounds a needle resembles it: other digests, other guarantees, other accounts. So it is found by what it is
called, and by nothing less.
"""

import json
import random
from typing import Any

WORDS = [
    "bearing", "coupling", "flange", "gasket", "rotor", "spindle", "valve", "torque", "pressure", "bracket",
    "housing", "damper", "ratchet", "sprocket", "manifold", "washer", "bushing", "piston", "cylinder", "crank",
    "lever", "pinion", "shaft", "seal", "spring", "clutch", "pulley", "chain", "belt", "gear",
    "axle", "hinge", "latch",
]  # fmt: skip


def digest(rng: random.Random) -> str:
    return f"{rng.getrandbits(256):064x}"


def build_log(seed: int, size: int) -> tuple[bytes, str]:
    """A log of many build jobs, coloured here and there; one publishes the image of the payments gateway."""
    rng = random.Random(seed)
    rows: list[str] = []
    written = 0
    needle = digest(rng)
    at = int(size * rng.uniform(0.4, 0.6))
    second = 0
    while written < size:
        second += rng.randrange(3)
        stamp = (
            f"2031-05-{1 + second // 86400:02d}T{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
        )
        job = f"job-{rng.randrange(400):03d}"
        unit = f"com.example.{rng.choice(WORDS)}.{rng.choice(WORDS).title()}{rng.choice(WORDS).title()}"
        row = rng.choices(
            (
                f"{stamp} {job} \x1b[1;34mINFO\x1b[m compiling {unit} ({rng.randrange(9, 900)} ms)",
                f"{stamp} {job} downloaded {unit}-{rng.randrange(9)}.{rng.randrange(30)}.jar {rng.randrange(10**6)} B",
                f"{stamp} {job} \x1b[1;33mWARNING\x1b[m {unit} uses a deprecated method",
                f"{stamp} {job} published image of {rng.choice(WORDS)}-service, digest sha256:{digest(rng)}",
            ),
            weights=(60, 25, 10, 5),
        )[0]
        if written < at <= written + len(row) + 1:
            said = "\x1b[1;32mpublished\x1b[m image of \x1b[1mpayments-gateway\x1b[m"
            row = f"{stamp} {job} {said}, digest sha256:{needle}"
        rows.append(row)
        written += len(row) + 1
    return ("\n".join(rows) + "\n").encode(), needle


def page(seed: int, size: int) -> tuple[bytes, str]:
    """A manual as one page: navigation, scripts, and chapters; one of them gives the guarantee of the K-9 coupling."""
    rng = random.Random(seed)
    needle = str(rng.randrange(1000, 10_000))
    links = "".join(f'<li><a href="/part/{n}" class="nav-item">{rng.choice(WORDS)} {n}</a></li>\n' for n in range(400))
    script = "".join(f"window.track_{n}=function(){{return {rng.random()}}};" for n in range(800))
    style = "<style>.nav-item{color:#333}</style>"
    head = f"<head><title>Workshop manual</title>\n{style}<script>{script}</script></head>"
    out = [f"<!DOCTYPE html>\n<html lang=en>{head}\n<body><nav><ul>{links}</ul></nav><main><article><h1>Manual</h1>\n"]
    written, chapter, given = len(out[0]), 0, False
    while written < size:
        chapter += 1
        out.append(f'<h2 id="c{chapter}">Chapter {chapter}: {rng.choice(WORDS).title()} and {rng.choice(WORDS)}</h2>\n')
        for _ in range(rng.randrange(4, 12)):
            text = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(40, 120)))
            out.append(
                f"<p>The {text}. The guarantee of the model {rng.choice(WORDS)} covers {rng.randrange(90)} days.</p>\n"
            )
        if not given and written > size * 0.6:
            given = True
            out.append(
                "<p>The <strong>guarantee</strong> of the <a href='/part/k9'><em>K-9</em>&nbsp;coupling</a> covers "
                f"<b>{needle}</b> hours of running.</p>\n"
            )
        written += sum(map(len, out[-12:]))
    out.append("</article></main><footer>Imprint</footer></body></html>\n")
    return "".join(out).encode(), needle


def accounts(seed: int, size: int) -> tuple[bytes, str, str]:
    """A response with many accounts on one line. The one that is meant has a long history before its contact."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    written = 0
    while written < size:
        name = f"acc-{len(rows):06d}"
        history = [{"at": rng.randrange(10**9), "note": " ".join(rng.choices(WORDS, k=12))} for _ in range(6)]
        rows.append(
            {
                "id": name,
                "plan": rng.choice(WORDS),
                "history": history,
                "contact": f"{name}@{rng.choice(WORDS)}.example",
            }
        )
        written += len(json.dumps(rows[-1])) + 2
    meant = len(rows) * 3 // 5
    rows[meant]["history"] *= 8
    rows[meant]["contact"] = contact = f"desk-{rng.randrange(10**6)}@rotor.example"
    return json.dumps({"total": len(rows), "accounts": rows}).encode(), rows[meant]["id"], contact


def records(seed: int, many: int) -> tuple[bytes, list[dict[str, Any]], int]:
    """Small records on one line, one of them with a long text; and which."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = [
        {"id": f"rec-{n:05d}", "amount": rng.randrange(10**6), "note": " ".join(rng.choices(WORDS, k=2))}
        for n in range(many)
    ]
    meant = rng.randrange(many // 2, many)
    rows[meant]["note"] = " ".join(rng.choices(WORDS, k=3_000))
    return json.dumps({"records": rows}, separators=(",", ":")).encode(), rows, meant
