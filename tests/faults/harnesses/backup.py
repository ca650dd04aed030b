"""Back a service up while it takes in, deletes and sweeps; restore, serve, and hold what it acknowledged against that.

python tests/faults/harnesses/backup.py sqlite+files --rounds 20                 prints one JSON line
python tests/faults/harnesses/backup.py --rounds 5 --wrong careless     the same with a backup without its protections
"""

import contextlib
import random
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner, Result

from coatcheck.cli import main as commands
from faults import combos
from faults.fork_server import Nursery, Running, nursery
from faults.ledger import Ask, Ledger
from faults.report import Report, script
from faults.steps import at_once, verify_all

SETTINGS: dict[str, int | str] = {"sweep_seconds": 1, "lease_seconds": 60, "ttl": 86400}
GRACES = (0, 1)
CLIENTS = 3
WARM = 30
"""Acknowledged artifacts before the first backup of a round begins."""
LASTING = 3
"""The first artifacts of each client, which it never deletes."""
CARELESS = "careless"
"""A backup that takes files first and rows last, without a second look."""


def payload(rng: random.Random) -> bytes:
    """Half inline, half files; a few contents again and again, so that blobs are shared, die and come anew."""
    if rng.random() < 0.4:
        return b"line %d of many\n" % rng.randrange(20) * rng.randrange(1, 400)
    return random.Random(rng.randrange(60)).randbytes(rng.randrange(80_000, 80_004))


def client(service: Running, ledger: Ledger, seed: int, stop: threading.Event, report: Report) -> None:
    """Post, and delete nearly as much, until told to stop."""
    rng, caller = random.Random(seed), service.caller()
    mine: list[str] = []
    while not stop.is_set():
        if len(mine) > 5 and rng.random() < 0.55:
            ledger.delete(caller, mine.pop(rng.randrange(LASTING, len(mine))), report)
        elif (name := ledger.store(caller, Ask(payload(rng), f"{rng.random()}"), report)) is not None:
            mine.append(name)
    caller.close()


def command(*args: str | Path) -> Result:
    """Run a command to its end, in this process, which is another one than the service's."""
    return CliRunner().invoke(commands, list(map(str, args)))


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
    target.chmod(0o700)  # so that what is found is not that


def _copy_if_there(source: str, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(source, target)


def one_round(forks: Nursery, folder: Path, rng: random.Random, wrong: Sequence[str], report: Report) -> None:
    """Load a fresh service, back it up, restore, compare."""
    folder.mkdir()
    data, copy, again = folder / "data", folder / "backup", folder / "again"
    service = forks.start(data, settings={**SETTINGS, "grace_seconds": rng.choice(GRACES)})
    ledger, stop, promised = Ledger(), threading.Event(), Ledger()
    with at_once(CLIENTS, lambda seed: client(service, ledger, seed, stop, report), rng):
        while len(ledger.names()) < WARM:
            stop.wait(0.02)
        before = {name for name in ledger.names() if ledger.kept[name].fate == "kept"}
        if wrong:
            careless(data, copy)
        else:
            done = command("backup", copy, "--data", data)
            report.expect("backed up", done.exit_code == 0, done.stderr)
        # Of what may have been deleted meanwhile, a backup promises nothing.
        promised.kept = {name: replace(ledger.kept[name]) for name in before if ledger.kept[name].fate == "kept"}
        stop.set()
    service.stop()
    report.counts["rounds"] += 1
    report.counts["held"] += len(promised.kept)
    compare(forks, copy, again, promised, report)


def compare(forks: Nursery, copy: Path, again: Path, promised: Ledger, report: Report) -> None:
    """Restore a backup elsewhere, check it, serve it, and hold it against what was promised."""
    if (copy / "manifest.json").exists():
        done = command("restore", copy, "--data", again)
        report.expect("restored", done.exit_code == 0, done.stderr)
    else:
        copy.rename(again)
    findings = forks.audit(again)
    report.expect("a restored store is clean", not findings, findings[:3])
    if not findings:
        service = forks.start(again, settings=SETTINGS)
        verify_all(service, promised, report)
        service.stop()


def run(storage: str, rounds: int, seed: int, faults: Sequence[str] = (), shared: Nursery | None = None) -> Report:
    """The rounds; `faults` may be `careless`."""
    report, rng = Report("backup", storage), random.Random(seed)
    if storage != combos.EMBEDDED:
        raise SystemExit("a backup is of the embedded store")
    with combos.opened(storage) as opened, nursery(shared) as forks:
        for number in range(rounds):
            one_round(forks, opened.folder / f"{number}", rng, faults, report)
    return report


if __name__ == "__main__":
    script(__doc__, run, unit="rounds", default=20)
