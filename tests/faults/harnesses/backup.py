"""Back a service up while it takes in, deletes and sweeps; restore, serve, and hold what it acknowledged against that.

python tests/faults/harnesses/backup.py --rounds 20                 prints one JSON line
python tests/faults/harnesses/backup.py --rounds 5 --control        the same with a backup without its protections
"""

import argparse
import contextlib
import hashlib
import json
import random
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner, Result

from coatcheck.cli import main as commands
from support.service import Service, start

SETTINGS = {"sweep_seconds": 1, "lease_seconds": 60, "ttl": 86400}
GRACES = (0, 1)
CLIENTS = 3
WARM = 30
"""Acknowledged artifacts before the first backup of a round begins."""

Make = Callable[[Path, Path], Any]
"""Makes a backup of a data directory at a place; raises when it could not."""


@dataclass
class Report:
    """What the rounds saw."""

    rounds: int = 0
    acknowledged: int = 0
    deleted: int = 0
    held: int = 0
    """Artifacts that the restored backups had to hold: acknowledged before, and not asked to be deleted until after."""
    missing: int = 0
    corrupt: int = 0
    unclean: int = 0
    """Restored stores of which `check` finds something wrong."""
    failed: int = 0
    """Backups or restores that ended with an error."""
    problems: list[str] = field(default_factory=list[str])

    @property
    def clean(self) -> bool:
        """Whether every promise held."""
        return self.missing == self.corrupt == self.unclean == self.failed == 0


@dataclass
class Ledger:
    """What the service has acknowledged, as its clients know it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    enough: threading.Event = field(default_factory=threading.Event)
    posted: dict[str, str] = field(default_factory=dict[str, str])
    """Artifact ID to SHA-256 of the payload."""
    asked: set[str] = field(default_factory=set[str])
    """Asked to be deleted, whether or not that was answered."""
    faults: list[str] = field(default_factory=list[str])

    def live(self) -> dict[str, str]:
        """What nobody has asked to delete."""
        with self.lock:
            return {name: sha for name, sha in self.posted.items() if name not in self.asked}


def payload(rng: random.Random) -> bytes:
    """Half inline, half files; a few contents again and again, so that blobs are shared, die and come anew."""
    if rng.random() < 0.4:
        return b"line %d of many\n" % rng.randrange(20) * rng.randrange(1, 400)
    return random.Random(rng.randrange(60)).randbytes(rng.randrange(80_000, 80_004))


def client(url: str, ledger: Ledger, rng: random.Random, stop: threading.Event) -> None:
    """Post, and delete nearly as much, until told to stop."""
    mine: list[str] = []
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as http:
        while not stop.is_set():
            if len(mine) > 5 and rng.random() < 0.55:
                name = mine.pop(rng.randrange(len(mine)))
                with ledger.lock:
                    ledger.asked.add(name)
                answer = http.delete(f"/v1/artifacts/{name}")
            else:
                data = payload(rng)
                answer = http.post("/v1/artifacts/raw", params={"tool_call_id": f"{rng.random()}"}, content=data)
                if answer.is_success:
                    mine.append(answer.json()["id"])
                    with ledger.lock:
                        ledger.posted[mine[-1]] = hashlib.sha256(data).hexdigest()
            if not answer.is_success:
                ledger.faults.append(f"{answer.status_code} {answer.text[:200]}")
            if len(ledger.posted) >= WARM:
                ledger.enough.set()


def command(*args: str | Path) -> Result:
    """Run a command to its end, in this process, which is another one than the service's."""
    return CliRunner().invoke(commands, list(map(str, args)))


def real(data: Path, target: Path) -> None:
    """What an administrator runs."""
    done = command("backup", target, "--data", data)
    if done.exit_code:
        raise RuntimeError(done.stderr)


def careless(data: Path, target: Path) -> None:
    """The control: files first, rows last, and no second look; with enough time between for the load to show it."""
    shutil.copytree(data / "blobs", target / "blobs", copy_function=_copy_if_there)
    query = "SELECT count(*), max(seq) FROM blobs WHERE placement = 'file' AND dead_at IS NULL"
    with contextlib.closing(sqlite3.connect(f"file:{data / 'coatcheck.db'}?mode=ro", uri=True)) as source:
        before = source.execute(query).fetchone()
        while source.execute(query).fetchone()[1] <= before[1] + 10:
            pass
        with contextlib.closing(sqlite3.connect(target / "coatcheck.db")) as copy:
            source.backup(copy)


def _copy_if_there(source: str, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(source, target)


def one_round(folder: Path, rng: random.Random, make: Make, report: Report) -> None:
    """Load a fresh service, back it up, restore, compare."""
    data, copy, again = folder / "data", folder / "backup", folder / "again"
    service = start(data, settings={**SETTINGS, "grace_seconds": rng.choice(GRACES)})
    ledger, stop = Ledger(), threading.Event()
    threads = [
        threading.Thread(target=client, args=(service.url, ledger, random.Random(rng.random()), stop), daemon=True)
        for _ in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    ledger.enough.wait(60)
    before = ledger.live()
    try:
        make(data, copy)
    except RuntimeError as error:
        report.failed += 1
        report.problems.append(str(error))
    after = ledger.live()
    stop.set()
    for thread in threads:
        thread.join()
    service.stop()
    report.rounds += 1
    report.acknowledged += len(ledger.posted)
    report.deleted += len(ledger.asked)
    report.problems += ledger.faults
    report.failed += len(ledger.faults)
    if copy.exists():
        compare(copy, again, {name: sha for name, sha in before.items() if name in after}, report)


def compare(copy: Path, again: Path, promised: dict[str, str], report: Report) -> None:
    """Restore a backup elsewhere, check it, serve it, and hold it against what was promised."""
    if (copy / "manifest.json").exists():
        done = command("restore", copy, "--data", again)
        if done.exit_code:
            report.failed += 1
            report.problems.append(done.stderr)
            return
    else:
        shutil.copytree(copy, again)
        again.chmod(0o700)  # so that what is found is not that
    checked = command("check", "--data", again, "--json", "--orphan-age", "0")
    findings = json.loads(checked.stdout)["findings"] if checked.stdout else [checked.stderr]
    report.unclean += bool(findings)
    if findings:
        report.problems += [str(finding) for finding in findings[:3]]
        return
    service = start(again, settings=SETTINGS)
    try:
        held_against(service, promised, report)
    finally:
        service.stop()


def held_against(service: Service, promised: dict[str, str], report: Report) -> None:
    """Read everything that was promised."""
    for name, sha in promised.items():
        report.held += 1
        answer = service.client.get(f"/v1/artifacts/{name}/content")
        if answer.status_code != 200:
            report.missing += 1
            report.problems.append(f"{name}: {answer.status_code} {answer.text[:200]}")
        elif hashlib.sha256(answer.content).hexdigest() != sha:
            report.corrupt += 1


def run(rounds: int, seed: int, make: Make = real) -> Report:
    """The rounds."""
    report, rng = Report(), random.Random(seed)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="backup-") as folder:
            one_round(Path(folder), rng, make, report)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--control", action="store_true")
    asked = parser.parse_args(arguments)
    result = run(asked.rounds, asked.seed, careless if asked.control else real)
    print(json.dumps({"harness": "backup", "control": asked.control, "clean": result.clean, **asdict(result)}))  # noqa: T201
    return int(result.clean == asked.control)


if __name__ == "__main__":
    sys.exit(main())
