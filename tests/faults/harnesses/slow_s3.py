"""Make S3 slow, refusing, cut off, deaf and absent under load, one after the other, through a proxy.

What must hold:
- answers are 200, 201, 204, a 202 that says `stored: false`, or 503 with Retry-After, and come in time; the bytes of an
  answer that was begun may break off, and are never wrong;
- what was acknowledged as stored is never lost and never unknown; what waited in memory is stored afterwards, once;
- five seconds after S3 answers, large payloads are stored again, and sweeps go on;
- nothing is left behind that an audit can see. Parts of uploads that were broken off are S3's to expire: no listing of
  objects shows them.

python tests/faults/harnesses/slow_s3.py postgresql+s3 --outages 40        prints one JSON line
"""

import random
import time
from collections.abc import Sequence

from faults import combos
from faults.fork_server import Nursery, nursery
from faults.ledger import Ledger
from faults.load import recovered, settled, under_load, until_refused
from faults.report import Report, script
from faults.steps import audit
from support.http_proxy import Answer, CutRequest, CutResponse, Fault, HttpProxy, LoseAnswer, Request

SETTINGS: dict[str, int | str] = {"sweep_seconds": 1, "grace_seconds": 0, "lease_seconds": 5, "ttl": 86400}
KINDS = ("slow", "refusing", "cut", "lost answers", "absent", "silent")
EVERY = 8.0
"""Seconds of an outage, about: less and more than a call waits."""
LATENCY = 0.4


class Some:
    """A fault for a share of the requests."""

    def __init__(self, rng: random.Random, share: float, *faults: Fault) -> None:
        self._rng = rng
        self._share = share
        self._faults = faults

    def __call__(self, _: Request) -> Fault | None:
        """What is to happen to a request."""
        return self._rng.choice(self._faults) if self._rng.random() < self._share else None


def begin(proxy: HttpProxy, kind: str, rng: random.Random) -> None:
    """Break it."""
    if kind == "slow":
        proxy.latency = LATENCY
    elif kind == "refusing":
        proxy.fault = Some(rng, rng.choice((0.5, 1.0)), Answer(503, "<Error><Code>SlowDown</Code></Error>"))
    elif kind == "cut":
        proxy.fault = Some(rng, 0.5, CutRequest(1000), CutResponse(1000))
    elif kind == "lost answers":
        proxy.fault = Some(rng, 0.5, LoseAnswer())
    elif kind == "absent":
        proxy.refuse()
    else:
        proxy.stall()


def over(proxy: HttpProxy, kind: str) -> None:
    """Let it be as it was."""
    proxy.latency = 0.0
    proxy.forget()
    if kind == "absent":
        proxy.accept()
    elif kind == "silent":
        proxy.resume()


def run(
    storage: str,
    outages: int,
    seed: int,
    faults: Sequence[str] = (),
    shared: Nursery | None = None,
    kinds: Sequence[str] = KINDS,
    every: float = EVERY,
) -> Report:
    """So many outages, of each kind in turn."""
    report, rng = Report("slow_s3", storage), random.Random(seed)
    ledger = Ledger(outages=True)
    with combos.opened(storage, shared=shared is not None) as opened, nursery(shared) as forks:
        if opened.s3 is None or opened.s3.kind == "given":
            raise SystemExit("there is no S3 server on this machine to stand before")
        with HttpProxy(opened.s3.port) as proxy:
            broken = opened.through(proxy.endpoint)
            service = broken.start(forks, SETTINGS, faults)
            for number in range(outages):
                kind = kinds[number % len(kinds)]
                with under_load(service, ledger, rng, report):
                    time.sleep(every * 0.1)
                    begin(proxy, kind, rng)
                    time.sleep(every * rng.uniform(0.2, 1.2))
                    if kind == "absent":
                        until_refused(report)
                    over(proxy, kind)
                    recovered(service, rng, report)
                report.counts[kind] += 1
            settled(service, broken, ledger, report)
            report.expect("stopped cleanly", service.stop() == 0)
        audit(opened, forks, report)
    return report


if __name__ == "__main__":
    script(__doc__, run, unit="outages", default=40)
