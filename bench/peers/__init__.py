"""Beside stores that run in the agent's own process: Agno's result store and Headroom; Coatcheck over HTTP.

The same logs to all three, each with one line that matters in its middle: putting one away until what the model reads
instead is there, and then a first search for that line. Agno's database is SQLite in a file, as ours is; Headroom keeps
originals in SQLite as well. The peers live in an environment of their own, with their releases of the day it was made.
"""

import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from bench.throughput import text
from coatcheck.adapters.tokenizer import load_tokenizer
from support.environments import environment
from support.service import Service, serving

SIZES: Final = {"20 KB": 20_000, "1.6 MB": 1_600_000}
EACH: Final = 12
"""Payloads of each size; the first two are not counted, in which everybody gets ready."""
_WARM: Final = 2
_HERE: Final = Path(__file__).parent


def run() -> None:
    """Print the table."""
    python = environment("peers", _HERE / "requirements.txt")
    if python is None:
        print("The peers cannot be installed here: nothing is compared.")
        return
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        rng, encode = random.Random(20), load_tokenizer().count
        print(f"{'size':>7} {'':>10} | {'put ms':>7} {'cpu ms':>7} {'search ms':>9} | {'tokens':>6} | seen  found")
        for size_name, size in SIZES.items():
            payloads = [_payload(rng, size, number) for number in range(EACH)]
            rows = _ours(service, payloads) + _theirs(python, Path(folder), payloads)
            for store in ("coatcheck", "agno", "headroom"):
                mine = [row for row in rows if row["store"] == store][_WARM:]
                cpu = fmean(row["put_cpu"] for row in mine) * 1000
                seen = sum(needle in row["shown"] for row, (_, needle) in zip(mine, payloads[_WARM:], strict=True))
                print(
                    f"{size_name:>7} {store:>10} | {_ms(mine, 'put'):7.1f} {cpu:7.1f} "
                    f"{_ms(mine, 'search'):9.1f} | {median(encode(row['shown']) for row in mine):6.0f} | "
                    f"{seen}/{len(mine)} {sum(row['found'] for row in mine)}/{len(mine)}",
                    flush=True,
                )


def _payload(rng: random.Random, size: int, number: int) -> tuple[str, str]:
    """A log, and what stands in one line in its middle alone."""
    lines = text(rng, size).decode().split("\n")
    needle = f"store-{number}-{rng.randrange(10**9)}"
    lines[len(lines) // 2] = f"2026-03-01T12:00:07Z ERROR worker[3]: cannot open /srv/data/{needle}.db: disk I/O error"
    return "\n".join(lines), needle


def _ms(rows: list[dict[str, Any]], what: str) -> float:
    return median(row[what] for row in rows) * 1000


def _ours(service: Service, payloads: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [_put(service, payload, needle) for payload, needle in payloads]


def _put(service: Service, payload: str, needle: str) -> dict[str, Any]:
    data, cpu = payload.encode(), _cpu_of(service)
    (took, receipt), spent = _timed(lambda: service.post(data, media_type="text/plain")), _cpu_of(service) - cpu
    call = {"name": "read_artifact", "arguments": {"artifact_id": receipt["id"], "pattern": needle}}
    searched, answer = _timed(lambda: service.client.post("/v1/tools/call", json=call).raise_for_status().text)
    shown = receipt["text"]
    return {
        "store": "coatcheck",
        "put": took,
        "put_cpu": spent,
        "search": searched,
        "shown": shown,
        "found": f"{needle}.db" in answer,
    }


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    done = work()
    return time.perf_counter() - began, done


def _cpu_of(service: Service) -> float:
    """Seconds of processor time of the service's process so far."""
    ticks = Path(f"/proc/{service.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _theirs(python: Path, folder: Path, payloads: list[tuple[str, str]]) -> list[dict[str, Any]]:
    asked: list[dict[str, str]] = []
    for number, (payload, needle) in enumerate(payloads):
        path = folder / f"{number}.log"
        path.write_text(payload, encoding="utf-8")
        asked.append({"path": str(path), "needle": needle})
    home = folder / "peers"
    home.mkdir(exist_ok=True)
    settings = {"PATH": "/usr/bin:/bin", "HOME": str(home), "HEADROOM_WORKSPACE_DIR": str(home)}
    done = subprocess.run(
        [python, _HERE / "stores.py", home],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        env=settings,
    )
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows
