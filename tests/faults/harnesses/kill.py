"""Kill the service in a loop while it takes in, deletes, expires and sweeps; hold what it acknowledged against what is
there.

python tests/faults/harnesses/kill.py sqlite+files --cycles 1000        prints one JSON line
"""

import random
import time
from collections.abc import Sequence

from faults import combos
from faults.caller import Broken
from faults.fork_server import Nursery, Running, nursery
from faults.ledger import Ask, Ledger, ask
from faults.report import Report, script
from faults.steps import at_once, finish, wait_until

SETTINGS: dict[str, int | str] = {"sweep_seconds": 1, "grace_seconds": 0, "lease_seconds": 3, "ttl": 86400}
CLIENTS = 4
LONGEST = 5.0
"""Seconds until it is killed at the latest."""
PATIENCE = 30.0
"""Seconds for upkeep: several times the leases of uploads and of a replica that tidied and was killed."""
SAMPLE = 40
"""Artifacts verified in each cycle; all of them at the end."""


def client(service: Running, ledger: Ledger, rng: random.Random, report: Report) -> None:
    """Post, post again, and delete some of one's own, until the service is gone."""
    mine: list[tuple[str, Ask]] = []
    caller = service.caller()
    try:
        while True:
            dice = rng.random()
            if mine and dice < 0.3:
                ledger.delete(caller, mine.pop(rng.randrange(len(mine)))[0], report)
                continue
            again = [a for _, a in mine if a.key is None and a.ttl is None] if dice < 0.4 else []
            asked = rng.choice(again) if again else ask(rng)
            name = ledger.store(caller, asked, report)
            if name is not None and not again:
                mine.append((name, asked))
    except Broken:
        caller.close()


def answered(report: Report) -> int:
    """Requests that were acknowledged so far."""
    return sum(report.counts[what] for what in ("stored", "stored again", "deleted"))


def cycle(service: Running, ledger: Ledger, rng: random.Random, report: Report) -> None:
    """Look at what was acknowledged before, load it, kill it."""
    caller = service.caller()
    names = ledger.names()
    for name in rng.sample(names, min(len(names), SAMPLE)):
        ledger.verify(caller, name, report)
        ledger.verify_text(caller, name, report)
    open_asks, ledger.unanswered = ledger.unanswered, []
    for asked in open_asks:
        ledger.store(caller, asked, report)
    caller.close()
    with at_once(CLIENTS, lambda seed: client(service, ledger, random.Random(seed), report), rng):
        enough = answered(report) + rng.randrange(2, 40)
        wait_until(lambda: answered(report) >= enough, LONGEST, 0.002)
        time.sleep(rng.uniform(0, 0.05))
        service.kill()
    report.counts["cycles"] += 1


def settle(storage: combos.Storage, forks: Nursery, faults: Sequence[str], ledger: Ledger, report: Report) -> None:
    """Verify everything, let upkeep finish what the kills left, and audit."""
    service = storage.start(forks, SETTINGS, faults)
    caller = service.caller()
    for name in ledger.names():
        ledger.verify(caller, name, report)
        ledger.verify_text(caller, name, report)
    caller.close()
    settled = wait_until(lambda: not storage.due, PATIENCE, 0.3)
    report.expect("upkeep finishes what kills left", settled, storage.due)
    finish(service, storage, forks, report)


def run(storage: str, cycles: int, seed: int, faults: Sequence[str] = (), shared: Nursery | None = None) -> Report:
    """The loop."""
    report, ledger, rng = Report("kill", storage), Ledger(), random.Random(seed)
    with combos.opened(storage, shared=shared is not None) as opened, nursery(shared) as forks:
        for _ in range(cycles):
            service = opened.start(forks, SETTINGS, faults)
            cycle(service, ledger, rng, report)
        settle(opened, forks, faults, ledger, report)
    report.counts["acknowledged"] = len(ledger.kept)
    return report


if __name__ == "__main__":
    script(__doc__, run, unit="cycles", default=1000)
