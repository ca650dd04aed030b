"""Sweep every second, with no grace, while clients post (half of it content that is stored already), delete, post again
and read: a live artifact is never lost to the deletion of another one that shares its bytes.

python tests/faults/harnesses/sweep.py sqlite+files --operations 100000        prints one JSON line
"""

import random
from collections.abc import Sequence

from faults import combos
from faults.fork_server import Nursery, Running, nursery
from faults.ledger import Ask, Ledger
from faults.report import Report, script
from faults.steps import at_once, verify_all, wait_until

SETTINGS: dict[str, int | str] = {"sweep_seconds": 1, "grace_seconds": 0, "lease_seconds": 60, "ttl": 86400}
CLIENTS = 6
SHARED = 6
"""Contents that everybody posts: each is born, shared, and dies again and again."""
PATIENCE = 10.0
HELD = 40
"""Artifacts that a client holds before it begins to delete."""


def shared(rng: random.Random) -> bytes:
    """One of a few contents, half of them too large for a row."""
    number = rng.randrange(SHARED)
    return random.Random(number).randbytes(40_000 if number % 2 else 3_000)


def client(service: Running, ledger: Ledger, seed: int, operations: int, report: Report) -> None:
    """Do so many operations. The artifacts are its own, so that it knows at each moment which are live."""
    rng, caller = random.Random(seed), service.caller()
    mine: list[str] = []
    gone: list[Ask] = []
    asks: dict[str, Ask] = {}
    for step in range(operations):
        dice = rng.random()
        if mine and dice < 0.3:
            ledger.verify(caller, rng.choice(mine), report)
        elif mine and (dice < 0.5 or len(mine) > HELD):
            name = mine.pop(rng.randrange(len(mine)))
            ledger.delete(caller, name, report)
            gone.append(asks[name])
        else:
            content = shared(rng) if dice < 0.75 else rng.randbytes(rng.choice((2_000, 36_000)))
            asked = gone.pop() if gone and dice > 0.95 else Ask(content, f"{seed}-{step}")
            name = ledger.store(caller, asked, report)
            if name is not None and name not in mine:
                mine.append(name)
                asks[name] = asked
    caller.close()


def run(storage: str, operations: int, seed: int, faults: Sequence[str] = (), shared: Nursery | None = None) -> Report:
    """The soak."""
    report, ledger, rng = Report("sweep", storage), Ledger(), random.Random(seed)
    with combos.opened(storage, shared=shared is not None) as opened, nursery(shared) as forks:
        service = opened.start(forks, SETTINGS, faults)

        def work(seed: int) -> None:
            client(service, ledger, seed, operations // CLIENTS, report)

        with at_once(CLIENTS, work, rng):
            pass
        wait_until(lambda: "maintenance removed:" in service.log.read_text(), PATIENCE)
        report.expect("stopped cleanly", service.stop() == 0)
        # What was killed by mistake is swept now at the latest, and nobody has it in a cache.
        service = opened.start(forks, SETTINGS, faults)
        verify_all(service, ledger, report)
        report.expect("stopped cleanly", service.stop() == 0)
        report.counts["sweeps that removed"] = service.log.read_text().count("maintenance removed:")
        for finding in opened.audit(forks):
            if not finding.startswith("orphan"):
                report.broke("missing", finding)
    report.counts["operations"] = sum(report.counts[n] for n in ("stored", "stored again", "deleted", "read"))
    report.expect("a sweep ran", report.counts["sweeps that removed"] > 0)
    return report


if __name__ == "__main__":
    script(__doc__, run, unit="operations", default=100_000)
