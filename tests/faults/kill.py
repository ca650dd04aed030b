"""Kill the service in a loop while it takes in, deletes and sweeps; hold what it acknowledged against what is there.

python tests/faults/kill.py --cycles 200        prints one JSON line
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx

from support.service import COMMAND, Service, start

SETTINGS = {"sweep_seconds": 1, "grace_seconds": 0, "lease_seconds": 2, "ttl": 86400}
CLIENTS = 4


@dataclass
class Report:
    """What the loop saw."""

    cycles: int = 0
    acknowledged: int = 0
    deleted: int = 0
    lost: int = 0
    corrupt: int = 0
    revived: int = 0
    """Deleted artifacts that answered as if they were there."""
    leaked: int = 0
    """Files that belong to nothing after upkeep, and rows without their bytes."""
    problems: list[str] = field(default_factory=list[str])

    @property
    def clean(self) -> bool:
        """Whether every promise held."""
        return self.lost == self.corrupt == self.revived == self.leaked == 0


@dataclass
class Ledger:
    """What the service has acknowledged, as its clients know it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    live: dict[str, str] = field(default_factory=dict[str, str])
    """Artifact ID to SHA-256 of the payload."""
    deleted: set[str] = field(default_factory=set[str])
    unsure: set[str] = field(default_factory=set[str])
    """Asked to be deleted, without an answer."""


def payload(rng: random.Random) -> bytes:
    """Half small and repeated, so that blobs are shared; half too large to go inline."""
    if rng.random() < 0.5:
        return b"line %d of many\n" % rng.randrange(20) * rng.randrange(1, 400)
    return random.Random(rng.randrange(30)).randbytes(rng.randrange(80_000, 81_000))


def client(service: Service, ledger: Ledger, rng: random.Random, stop: threading.Event) -> None:
    """Post, and delete some of one's own, until the service is gone."""
    mine: list[str] = []
    with httpx.Client(base_url=service.url, timeout=30, trust_env=False) as http:
        while not stop.is_set():
            try:
                if mine and rng.random() < 0.3:
                    _delete(http, ledger, mine.pop(rng.randrange(len(mine))))
                else:
                    mine.append(_post(http, ledger, payload(rng), f"call_{rng.randrange(10**9)}"))
            except httpx.TransportError:
                return


def _post(http: httpx.Client, ledger: Ledger, data: bytes, call: str) -> str:
    answer = http.post("/v1/artifacts/raw", params={"tool_call_id": call}, content=data)
    assert answer.status_code in {200, 201}, answer.text
    name: str = answer.json()["id"]
    with ledger.lock:
        ledger.live[name] = hashlib.sha256(data).hexdigest()
    return name


def _delete(http: httpx.Client, ledger: Ledger, name: str) -> None:
    with ledger.lock:
        ledger.unsure.add(name)
    answer = http.delete(f"/v1/artifacts/{name}")
    assert answer.status_code == 204, answer.text
    with ledger.lock:
        ledger.unsure.discard(name)
        del ledger.live[name]
        ledger.deleted.add(name)


def verify(service: Service, ledger: Ledger, names: Sequence[str], report: Report) -> None:
    """Hold artifacts against the ledger."""
    for name in names:
        answer = service.client.get(f"/v1/artifacts/{name}/content")
        if name in ledger.deleted:
            report.revived += answer.status_code != 410
        elif name in ledger.unsure and answer.status_code == 410:
            continue
        elif answer.status_code != 200:
            report.lost += 1
            report.problems.append(f"{name}: {answer.status_code} {answer.text[:200]}")
        elif hashlib.sha256(answer.content).hexdigest() != ledger.live[name]:
            report.corrupt += 1


def cycle(service: Service, ledger: Ledger, rng: random.Random) -> None:
    """Load it, kill it."""
    stop = threading.Event()
    seeds = [rng.randrange(2**32) for _ in range(CLIENTS)]
    threads = [
        threading.Thread(target=client, args=(service, ledger, random.Random(seed), stop), daemon=True)
        for seed in seeds
    ]
    for thread in threads:
        thread.start()
    time.sleep(rng.uniform(0.1, 1.2))
    service.process.kill()
    stop.set()
    for thread in threads:
        thread.join()
    service.kill()


def leaked(data: Path) -> int:
    """Findings of an audit with no grace for orphans."""
    done = subprocess.run(
        [*COMMAND, "check", "--data", str(data), "--json", "--orphan-age", "0"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},  # noqa: TID251 - the child's environment
    )
    assert done.stdout, done.stderr
    return len(json.loads(done.stdout)["findings"])


def settle(data: Path, command: Sequence[str], report: Report, ledger: Ledger) -> None:
    """Verify everything, let upkeep finish what the kills left, and audit."""
    service = start(data, command=command, settings=SETTINGS)
    verify(service, ledger, [*ledger.live, *ledger.deleted], report)
    time.sleep(SETTINGS["lease_seconds"] + 2 * SETTINGS["sweep_seconds"])
    service.stop()
    report.leaked = leaked(data)


def run(cycles: int, seed: int, command: Sequence[str] = COMMAND) -> Report:
    """The loop."""
    report, ledger, rng = Report(), Ledger(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="kill-") as folder:
        data = Path(folder) / "data"
        for _ in range(cycles):
            service = start(data, command=command, settings=SETTINGS)
            known = [*ledger.live, *ledger.deleted]
            verify(service, ledger, rng.sample(known, min(len(known), 40)), report)
            cycle(service, ledger, rng)
            report.cycles += 1
        report.acknowledged = len(ledger.live) + len(ledger.deleted)
        report.deleted = len(ledger.deleted)
        settle(data, command, report, ledger)
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    result = run(asked.cycles, asked.seed)
    print(json.dumps({"harness": "kill", "clean": result.clean, **asdict(result)}))  # noqa: T201
    sys.exit(not result.clean)
