"""Retention on several replicas: artifacts expire by the thousand while whoever tidies is killed or frozen.

What must hold:
- each artifact is buried once, by one replica, and none before its time or that is to last;
- it is answered with 410 from its expiry on, by every replica, and never with 404 or again with 200;
- a lasting artifact keeps bytes that it shares with those that go; dead bytes go; nothing is left behind;
- clocks of replicas that are an hour off change nothing.

python tests/faults/harnesses/replicas.py postgresql+s3 --leaders 100        prints one JSON line
"""

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from faults import combos
from faults.caller import Broken
from faults.fork_server import Nursery, Running, nursery
from faults.harnesses.clocks import HOUR, put
from faults.ledger import Ask, Ledger
from faults.report import Report, script
from faults.steps import at_once, audit, wait_until

SETTINGS: dict[str, int | str] = {"sweep_seconds": 1, "grace_seconds": 0, "lease_seconds": 3, "ttl": 86400}
OFF = (0, HOUR, -HOUR, 0)
"""Seconds by which the clocks of the replicas are wrong."""
LEASE = 7.0
"""Seconds after which a leader that is gone has been: two pauses and five seconds."""
PATIENCE = 40.0
ALL_LEAD = "all-lead"
SHARED = 40
"""Contents that come again and again, in artifacts that expire and in those that last."""
CLIENTS = 3
PACE = 0.03
_WATCH = """CREATE TABLE buried (number bigint NOT NULL, what text NOT NULL, early boolean NOT NULL)"""
_NOTE = """CREATE FUNCTION note_burial() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
INSERT INTO public.buried VALUES (NEW.number, TG_OP, NEW.at > clock_timestamp()); RETURN NULL; END $$"""
_ON = """CREATE TRIGGER note AFTER INSERT OR UPDATE ON tombstones FOR EACH ROW EXECUTE FUNCTION note_burial()"""
_LEADER = "SELECT holder FROM leases WHERE name = 'tidy' AND until > clock_timestamp()"


@dataclass
class Fleet:
    """The replicas. One that was killed is started again under another name, as it has another process."""

    opened: combos.Storage
    forks: Nursery
    faults: Sequence[str]
    running: dict[str, Running] = field(default_factory=dict[str, Running])
    started: int = 0

    def add(self, place: int) -> None:
        """Start one."""
        name = f"r{place}-{self.started}"
        self.started += 1
        clock = self.opened.folder / f"clock-{place}"
        put(clock, OFF[place % len(OFF)])
        wrongs = [*self.faults, f"crew={name}", f"clock={clock}"]
        self.running[name] = self.opened.start(self.forks, SETTINGS, wrongs, replica=f"r{place}")

    def replace(self, name: str) -> None:
        """Kill one and start another in its place."""
        self.running.pop(name).kill()
        self.add(int(name[1 : name.index("-")]))

    def any(self, rng: random.Random) -> Running:
        """One of them."""
        return rng.choice(list(self.running.values()))

    def leader(self, besides: str = "") -> str | None:
        """Who tidies, once somebody does besides this one; None when nobody comes to it."""
        deadline = time.monotonic() + 2 * LEASE
        while time.monotonic() < deadline:
            rows = self.opened.ask(_LEADER)
            if rows and rows[0][0] in self.running and rows[0][0] != besides:
                return str(rows[0][0])
            time.sleep(0.1)
        return None


def ask(rng: random.Random) -> Ask:
    """Nine of ten expire within seconds."""
    content = random.Random(rng.randrange(SHARED)).randbytes(50_000) if rng.random() < 0.2 else rng.randbytes(300)
    return Ask(content, f"call_{rng.randrange(10**15)}", ttl=rng.randrange(1, 5) if rng.random() < 0.9 else None)


def client(fleet: Fleet, ledger: Ledger, seed: int, stop: threading.Event, report: Report) -> None:
    """Post to one replica, read from it what another took; go to another one when it is gone."""
    rng = random.Random(seed)
    service = fleet.any(rng)
    caller = service.caller()
    while not stop.is_set():
        try:
            name = ledger.store(caller, ask(rng), report)
            if name is not None and rng.random() < 0.3:
                ledger.verify(caller, rng.choice(ledger.names()), report)
        except Broken:
            service = None
        stop.wait(PACE)
        if service is None or rng.random() < 0.02:
            caller.close()
            service = fleet.any(rng)
            caller = service.caller()
    caller.close()


def disturb(fleet: Fleet, ledger: Ledger, number: int, rng: random.Random, report: Report) -> None:
    """Kill the leader, or freeze it until another leads and let it go on in the middle of what it did."""
    led = ALL_LEAD not in fleet.faults
    leader = fleet.leader() if led else rng.choice(list(fleet.running))
    if leader is None:
        report.broke("somebody tidies", "nobody took the lease")
        return
    time.sleep(rng.uniform(0, 1.2))
    if number % 3 != 2:
        fleet.replace(leader)
        report.counts["killed"] += 1
        return
    # What it has locked stays locked until the database ends its transaction; others say so meanwhile.
    ledger.outages = True
    fleet.running[leader].freeze()
    if led:
        report.expect("another one leads", fleet.leader(besides=leader) is not None)
        time.sleep(rng.uniform(0, 1))
    else:
        time.sleep(rng.uniform(0, 3))
    fleet.running[leader].thaw()
    report.counts["frozen"] += 1


def buried(opened: combos.Storage, ledger: Ledger, report: Report) -> None:
    """Hold what was noted of burials against what was acknowledged."""
    once = {int(number): int(times) for number, times in opened.ask("SELECT number, count(*) FROM buried GROUP BY 1")}
    report.counts["buried"] = len(once)
    again = sum(times > 1 for times in once.values())
    report.expect("each is buried once", again == 0, f"{again} were buried more than once")
    early = opened.count("buried", "early")
    report.expect("none is buried before its time", early == 0, early)
    for name, kept in ledger.kept.items():
        gone = int(name.removeprefix("art_")) in once
        report.expect("what expires is buried, what lasts is not", gone == kept.ends, name)
    left = opened.count("tombstones")
    report.expect("each has its tombstone", left == len(once), f"{left} tombstones of {len(once)} burials")
    report.expect("rows agree", opened.count("artifacts") >= sum(not k.ends for k in ledger.kept.values()))


def _buried(opened: combos.Storage) -> int:
    return int(opened.ask("SELECT count(DISTINCT number) FROM buried")[0][0])


def settled(fleet: Fleet, ledger: Ledger, report: Report, patience: float) -> None:
    """Upkeep comes to its end, every replica says the same, and nothing is left."""
    opened = fleet.opened
    ends = sum(kept.ends for kept in ledger.kept.values())
    wait_until(lambda: not opened.due and _buried(opened) >= ends, patience, 0.3)  # what is not due yet will be
    due = opened.due
    report.expect("upkeep finishes", not due, due)
    ledger.outages = False
    names = ledger.names()
    for service in fleet.running.values():
        caller = service.caller()
        for name in names if len(names) < 1000 else random.Random(0).sample(names, 1000):
            ledger.verify(caller, name, report)
        caller.close()
    buried(opened, ledger, report)
    for service in list(fleet.running.values()):
        report.expect("stopped cleanly", service.stop() == 0)
    audit(opened, fleet.forks, report)


def run(
    storage: str,
    leaders: int,
    seed: int,
    faults: Sequence[str] = (),
    shared: Nursery | None = None,
    replicas: int = 3,
    patience: float = PATIENCE,
) -> Report:
    """So many leaders are disturbed: two of three are killed, the third frozen. With `all-lead` it is any replica."""
    report, ledger, rng = Report("replicas", storage), Ledger(), random.Random(seed)
    stop = threading.Event()
    with combos.opened(storage, shared=shared is not None) as opened, nursery(shared) as forks:
        opened.ask(_WATCH, _NOTE, _ON)
        fleet = Fleet(opened, forks, faults)
        for place in range(replicas):
            fleet.add(place)
        with at_once(CLIENTS, lambda seed: client(fleet, ledger, seed, stop, report), rng):
            for number in range(leaders):
                disturb(fleet, ledger, number, rng, report)
            stop.set()
        settled(fleet, ledger, report, patience)
    report.counts["acknowledged"] = len(ledger.kept)
    return report


if __name__ == "__main__":
    script(__doc__, run, unit="leaders", default=100)
