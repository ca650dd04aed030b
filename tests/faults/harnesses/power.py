"""Pull the plug: start the service on what a power failure leaves, and look for everything that was acknowledged.

python tests/faults/harnesses/power.py sqlite+files --cycles 40        prints one JSON line

Every call that the service makes on its files, SQLite's too, is watched from outside (see syscalls.py). What was not
synced at the moment of the failure is lost, wholly in one cycle and in part in the next.
"""

import random
import threading
from collections.abc import Sequence

from faults import combos, syscalls
from faults.caller import Broken
from faults.disk import Disk, failing
from faults.fork_server import Nursery, Running, nursery
from faults.ledger import Ask, Ledger, payload
from faults.report import Report, script
from faults.steps import at_once, verify_all

SETTINGS: dict[str, int | str] = {"sweep_seconds": 1, "grace_seconds": 0, "lease_seconds": 2}
CLIENTS = 3
STORED = 12
"""Acknowledgements after which the plug is pulled."""


def client(service: Running, ledger: Ledger, seed: int, enough: threading.Event, report: Report) -> None:
    """Store and delete until the power fails."""
    rng, caller = random.Random(seed), service.caller()
    mine: list[str] = []
    try:
        while True:
            if mine and rng.random() < 0.2:
                ledger.delete(caller, mine.pop(), report)
            name = ledger.store(caller, Ask(payload(rng), f"call_{rng.randrange(10**12)}"), report)
            if name is not None:
                mine.append(name)
            if report.counts["stored"] >= STORED * (report.counts["cycles"] + 1):
                enough.set()
    except Broken:
        caller.close()


def load(service: Running, ledger: Ledger, rng: random.Random, report: Report) -> None:
    """Several clients, then the failure."""
    enough = threading.Event()
    with at_once(CLIENTS, lambda seed: client(service, ledger, seed, enough, report), rng):
        report.expect("it can be loaded", enough.wait(60))
        service.kill()


def run(storage: str, cycles: int, seed: int, faults: Sequence[str] = (), shared: Nursery | None = None) -> Report:
    """Power failures, each on what the one before left."""
    if storage != combos.EMBEDDED:
        raise SystemExit("the calls of a database server or an S3 store are not the service's")
    if (why := syscalls.why_not()) is not None:
        raise SystemExit(why)
    report, ledger, rng = Report("power", storage), Ledger(), random.Random(seed)
    with combos.opened(storage) as opened, nursery(shared) as forks:
        place = combos.Storage(storage, opened.folder / "0")
        place.folder.mkdir()
        forks.start(place.data, settings=SETTINGS).stop()
        for number in range(cycles):
            disk = Disk(place.data)
            watch = syscalls.Watch(place.data, failing(disk, lambda _: 0), keep_data=True)
            service = forks.start(place.data, faults=faults, settings=SETTINGS, watched=watch.theirs)
            load(service, ledger, rng, report)
            watch.join()
            place = combos.Storage(storage, opened.folder / f"{number + 1}")
            disk.image(place.data, rng if number % 2 else None)
            service = forks.start(place.data, settings=SETTINGS)
            verify_all(service, ledger, report)
            report.expect("stopped cleanly", service.stop() == 0)
            report.counts["cycles"] += 1
        for finding in forks.audit(place.data):
            if not finding.startswith("orphan"):
                report.broke("missing", finding)
    return report


if __name__ == "__main__":
    script(__doc__, run, unit="cycles", default=40)
