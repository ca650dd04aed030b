"""Clients that store, read and delete while storage comes and goes, and what they must find when it is there again.

The service itself lives: an answer that does not come is a broken promise. Knows nothing of what breaks storage.
"""

import contextlib
import hashlib
import random
import threading
import time
from collections.abc import Generator

from faults import combos
from faults.caller import Broken, Caller
from faults.fork_server import Running
from faults.harnesses.vanish import held
from faults.ledger import Ask, Ledger, payload
from faults.report import Report
from faults.steps import at_once, verify_all, wait_until

CLIENTS = 4
PACE = 0.1
"""Seconds between two requests of a client, so that refusals at once do not take the whole machine."""
NOT_STORED = "post refused with 202"
NOTICED = 3.0
"""Seconds in which clients meet an outage."""
SLOWEST = 20.0
"""Seconds in which any answer must come, whatever storage does."""
PATIENCE = 20.0
"""Seconds after which everything must have settled once storage is there."""
RECOVERED = 5.0
"""Seconds after an outage in which a payload must be stored again."""


def ask(rng: random.Random) -> Ask:
    """A request without an end, whose bytes are mostly new."""
    content = rng.randbytes(rng.choice((2_000, 50_000, 50_000))) if rng.random() < 0.6 else payload(rng)
    return Ask(content, f"call_{rng.randrange(10**12)}")


def step(caller: Caller, ledger: Ledger, mine: list[str], rng: random.Random, report: Report) -> None:
    """One request."""
    dice = rng.random()
    if mine and dice < 0.35:
        ledger.verify(caller, rng.choice(mine), report)
    elif mine and dice < 0.5:
        ledger.delete(caller, mine.pop(rng.randrange(len(mine))), report)
    else:
        name = ledger.store(caller, ask(rng), report)
        if name is not None:
            mine.append(name)


def client(service: Running, ledger: Ledger, seed: int, stop: threading.Event, report: Report) -> None:
    """Requests until told to stop."""
    rng, caller = random.Random(seed), service.caller(2 * SLOWEST)
    mine: list[str] = []
    while not stop.is_set():
        began = time.monotonic()
        try:
            step(caller, ledger, mine, rng, report)
        except Broken as error:
            # A body that was begun can only be broken off when storage goes.
            if not (ledger.outages and "IncompleteRead" in repr(error)):
                report.broke("answered", repr(error))
            report.counts["broken off"] += 1
        took = time.monotonic() - began
        stop.wait(PACE)
        report.counts["slowest ms"] = max(report.counts["slowest ms"], round(took * 1000))
        report.expect("answered in time", took < SLOWEST, f"{took:.1f} s")
    caller.close()


@contextlib.contextmanager
def under_load(service: Running, ledger: Ledger, rng: random.Random, report: Report) -> Generator[None]:
    """Several clients for the length of a `with` block."""
    stop = threading.Event()
    with at_once(CLIENTS, lambda seed: client(service, ledger, seed, stop, report), rng):
        try:
            yield
        finally:
            stop.set()


def until_refused(report: Report, times: int = 3) -> None:
    """Return when so many payloads more were answered as not stored, or when that does not come about."""
    before = report.counts[NOT_STORED]
    wait_until(lambda: report.counts[NOT_STORED] >= before + times, NOTICED, 0.02)


def until_stored(caller: Caller, rng: random.Random, seconds: float) -> float | None:
    """Seconds until a payload is stored again; None when that takes longer than so many."""
    began = time.monotonic()
    while (now := time.monotonic()) - began < seconds:
        answer = caller.post(rng.randbytes(40_000), inline_tokens=0)
        if answer.status == 201:
            return now - began
        time.sleep(0.05)
    return None


def recovered(service: Running, rng: random.Random, report: Report) -> None:
    """Payloads that are too large for a row are stored again soon."""
    caller = service.caller()
    took = until_stored(caller, rng, 2 * RECOVERED)
    caller.close()
    report.expect("stores again within 5 s", took is not None and took <= RECOVERED, f"{took} s")
    report.counts["longest recovery ms"] = max(report.counts["longest recovery ms"], round(1000 * (took or 0)))


def settled(
    service: Running, opened: combos.Storage, ledger: Ledger, report: Report, patience: float = PATIENCE
) -> None:
    """Storage is there: everything acknowledged is, what waited is stored, once, and nothing is held or left."""
    caller = service.caller()
    deadline = time.monotonic() + patience
    rows = 0
    while (left := set(ledger.waiting)) and time.monotonic() < deadline:
        numbers = ",".join(name.removeprefix("art_") for name in left)
        rows = opened.count("artifacts", f"number IN ({numbers})")
        if rows >= len(left):
            break
        time.sleep(0.3)
    report.expect("what waited is stored, once", rows == len(ledger.waiting), f"{rows} of {len(ledger.waiting)}")
    report.counts["waited"] = len(ledger.waiting)
    for name, kept in ledger.waiting.items():
        answer = caller.content(name)
        same = answer.status == 200 and hashlib.sha256(answer.body).hexdigest() == kept.sha256
        report.expect("what waited can be read", same, f"{name}: {answer}")
    caller.close()
    ledger.outages = False
    verify_all(service, ledger, report)
    report.counts["acknowledged"] = len(ledger.kept)
    wait_until(lambda: not opened.due and not held(service, opened), deadline - time.monotonic(), 0.3)
    report.expect("upkeep finishes", not opened.due, opened.due)
    report.expect("no descriptor is left", not held(service, opened), held(service, opened)[:3])
