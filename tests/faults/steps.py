"""What harnesses share: clients at once, waiting with patience, and what every run ends with."""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Generator

from faults import combos
from faults.fork_server import Nursery, Running
from faults.ledger import Ledger
from faults.report import Report


@contextlib.contextmanager
def at_once(count: int, work: Callable[[int], None], rng: random.Random) -> Generator[None]:
    """So many threads, each with a seed of its own, for the length of a `with` block, whose end waits for theirs."""
    threads = [threading.Thread(target=work, args=(rng.randrange(2**32),), daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def wait_until(is_so: Callable[[], object], patience: float, pause: float = 0.05) -> bool:
    """Whether something comes about within so many seconds."""
    deadline = time.monotonic() + patience
    while not is_so():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
    return True


def verify_all(service: Running, ledger: Ledger, report: Report) -> None:
    """Hold everything that was acknowledged against what is there."""
    caller = service.caller()
    for name in ledger.names():
        ledger.verify(caller, name, report)
    caller.close()


def finish(service: Running, opened: combos.Storage, forks: Nursery, report: Report) -> None:
    """Stop the service; nothing is leaked or missing."""
    report.expect("stopped cleanly", service.stop() == 0)
    audit(opened, forks, report)


def audit(opened: combos.Storage, forks: Nursery, report: Report) -> None:
    """Nothing is leaked or missing in a store that nobody serves."""
    for finding in opened.audit(forks):
        report.broke("leaked or missing", finding)
