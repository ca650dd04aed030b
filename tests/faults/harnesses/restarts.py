"""Take PostgreSQL away under load, again and again: restarted politely, restarted as a crash would, frozen.

What must hold:
- answers are 200, 201, 204, a 202 that says `stored: false`, or 503 with Retry-After, and come in time;
- what was acknowledged as stored is never lost and never unknown; what waited in memory is stored afterwards, once;
- five seconds after the server is up, payloads are stored again;
- no connection stays in a transaction, no descriptor stays open.

python tests/faults/harnesses/restarts.py postgresql+files --outages 30        prints one JSON line
"""

import random
import time
from collections.abc import Sequence
from typing import Literal

from faults import combos
from faults.fork_server import Nursery, nursery
from faults.ledger import Ledger
from faults.load import PATIENCE, RECOVERED, recovered, settled, under_load, until_refused
from faults.report import Report, script
from faults.steps import finish
from support.postgres import Server

SETTINGS: dict[str, int | str] = {"sweep_seconds": 1, "grace_seconds": 0, "lease_seconds": 3, "ttl": 86400}
Kind = Literal["fast", "immediate", "frozen"]
KINDS: tuple[Kind, ...] = ("immediate", "fast", "frozen")
EVERY = 10.0
"""Seconds between two outages."""
FROZEN = (1.0, 12.0)
"""Seconds that a frozen server stands still: less and more than any call waits."""
AWAY = (0.0, 3.0)
"""Seconds between stop and start."""
CONNECTIONS = 9
"""Of one service: eight readers and the writer."""
IN_TRANSACTION = """SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%')
FROM pg_stat_activity WHERE application_name = 'coatcheck'"""


def outage(server: Server, kind: Kind, rng: random.Random, scale: float, report: Report) -> None:
    """Take it away and give it back."""
    if kind == "frozen":
        server.freeze()
        time.sleep(rng.uniform(*FROZEN) * scale)
        server.thaw()
    else:
        server.stop(immediate=kind == "immediate")
        time.sleep(rng.uniform(*AWAY) * scale)
        until_refused(report)
        server.start()


def connections(opened: combos.Storage, report: Report) -> None:
    """None of them is in a transaction, and there are not more than there may be."""
    deadline = time.monotonic() + RECOVERED
    total = idle = 0
    while time.monotonic() < deadline:
        total, idle = opened.ask(IN_TRANSACTION)[0]
        if not idle and total <= CONNECTIONS:
            break
        time.sleep(0.05)
    report.expect("no connection stays in a transaction", idle == 0, idle)
    report.expect("connections are bounded", total <= CONNECTIONS, total)


def run(
    storage: str,
    outages: int,
    seed: int,
    faults: Sequence[str] = (),
    shared: Nursery | None = None,
    kinds: Sequence[Kind] = KINDS,
    every: float = EVERY,
    patience: float = PATIENCE,
) -> Report:
    """So many outages, of each kind in turn; they and the pauses last shorter when they come more often."""
    report, rng = Report("restarts", storage), random.Random(seed)
    ledger = Ledger(outages=True)
    with combos.opened(storage) as opened, nursery(shared) as forks:
        server = opened.cluster
        if not isinstance(server, Server):
            raise SystemExit("there is no server to restart")
        service = opened.start(forks, SETTINGS, faults)
        for number in range(outages):
            with under_load(service, ledger, rng, report):
                time.sleep(every * rng.uniform(0.2, 0.6))
                kind = kinds[number % len(kinds)]
                outage(server, kind, rng, every / EVERY, report)
                recovered(service, rng, report)
                time.sleep(every * 0.2)
            report.counts[kind] += 1
            connections(opened, report)
        settled(service, opened, ledger, report, patience)
        finish(service, opened, forks, report)
    return report


if __name__ == "__main__":
    script(__doc__, run, unit="outages", default=30)
