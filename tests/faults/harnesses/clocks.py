"""A service whose clock jumps an hour ahead and back, again and again.

What must hold on the embedded store, where the service's clock is the only one:
- an artifact whose time is not over by any of those clocks is there, whatever the clock does;
- what expired while the clock was ahead, and was swept, stays gone when the clock goes back;
- an upload whose lease passed by a jump is refused or whole, never an artifact without bytes;
- an upload across a jump back is taken; posting, deleting and posting again go on;
- nothing is left behind.

python tests/faults/harnesses/clocks.py sqlite+files --rounds 20        prints one JSON line
"""

import contextlib
import random
import time
from collections.abc import Sequence
from pathlib import Path

from faults import combos
from faults.caller import Answer, Caller, SlowUpload
from faults.fork_server import Nursery, Running, nursery
from faults.ledger import Ask, Ledger
from faults.report import Report, script
from faults.steps import finish, verify_all, wait_until

HOUR = 3600
SETTINGS: dict[str, int | str] = {"sweep_seconds": 1, "grace_seconds": 0, "lease_seconds": 600, "ttl": 86400}
SIZE = 2_000_000
PATIENCE = 20.0
STILL = 0.5
"""Seconds without a byte more after which nothing of an upload is taken to be on its way."""


def put(clock: Path, by: int) -> None:
    """Set how far the service's clock is off. In one step: it is read at any moment."""
    fresh = clock.with_suffix(".new")
    fresh.write_text(str(by))
    fresh.replace(clock)


def begin(service: Running, rng: random.Random) -> tuple[SlowUpload, bytes]:
    """An upload with most of its bytes sent, and what is written of them written.

    A block that is still on its way when the clock jumps would be progress, which renews the lease.
    """
    before = files(service)
    payload = rng.randbytes(SIZE)
    sending = SlowUpload(*service.address, SIZE, "inline_tokens=0")
    sending.send(payload[: SIZE - 100_000])
    deadline, written, since = time.monotonic() + PATIENCE, 0, time.monotonic()
    while time.monotonic() < deadline:
        size = sum(map(size_of, files(service) - before))
        if size != written:
            written, since = size, time.monotonic()
        elif written and time.monotonic() - since > STILL:
            break
        time.sleep(0.02)
    return sending, payload


def size_of(path: Path) -> int:
    """The bytes of a file; none where it was swept while we looked."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def files(service: Running) -> set[Path]:
    """The blobs' files that have bytes."""
    found: set[Path] = set()
    for path in (service.data / "blobs").rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # it was swept while we looked
            if path.is_file() and path.stat().st_size:
                found.add(path)
    return found


def end(sending: SlowUpload, payload: bytes, caller: Caller, report: Report, may_fail: bool) -> None:
    """Send the rest and hold the answer against what is there."""
    sending.send(payload[SIZE - 100_000 :])
    answer = sending.answer()
    if answer.status == 201:
        report.counts["uploads taken"] += 1
        content = caller.content(answer.json["id"])
        report.expect("an acknowledged upload is there", content.body == payload, f"{content.status}")
    else:
        report.counts["uploads given up"] += 1
        given_up = answer.status == 503 and answer.json["code"] == "upload_fenced"
        report.expect("an upload is whole or given up", may_fail and given_up, answer)


def until_gone(caller: Caller, name: str) -> Answer:
    """Its answer once it is gone, or when patience has ended."""
    deadline = time.monotonic() + PATIENCE
    while (answer := caller.content(name)).status == 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    return answer


def swept(service: Running, rounds: int) -> None:
    """Return when so many rounds of upkeep that had something to do were logged, or when patience has ended."""
    wait_until(lambda: service.log.read_text().count("maintenance removed:") >= rounds, PATIENCE)


def one_round(service: Running, clock: Path, ledger: Ledger, rng: random.Random, report: Report) -> None:
    """True time, an hour ahead, true time, an hour behind, true time."""
    caller = service.caller()
    for size in (3_000, 50_000):
        ledger.store(caller, Ask(rng.randbytes(size), f"call_{rng.randrange(10**12)}"), report)
    short = caller.post(rng.randbytes(50_000), tool_call_id=f"s{rng.randrange(10**12)}", ttl=HOUR // 2).json["id"]
    uploading = begin(service, rng)
    tidied = service.log.read_text().count("maintenance removed:")
    put(clock, HOUR)
    swept(service, tidied + 1)
    answer = until_gone(caller, short)
    report.expect("time is over for what expires within the hour", answer.status == 410, answer)
    end(*uploading, caller, report, may_fail=True)
    verify_all(service, ledger, report)
    uploading = begin(service, rng)
    put(clock, 0)
    answer = caller.content(short)
    report.expect("what was swept stays gone", answer.status == 410, answer)
    end(*uploading, caller, report, may_fail=False)
    uploading = begin(service, rng)
    put(clock, -HOUR)
    verify_all(service, ledger, report)
    name = ledger.store(caller, Ask(rng.randbytes(50_000), f"call_{rng.randrange(10**12)}"), report)
    if name is not None:
        ledger.delete(caller, name, report)
    end(*uploading, caller, report, may_fail=False)
    put(clock, 0)
    verify_all(service, ledger, report)
    caller.close()
    report.counts["rounds"] += 1


def run(storage: str, rounds: int, seed: int, faults: Sequence[str] = (), shared: Nursery | None = None) -> Report:
    """The rounds, then an audit."""
    report, ledger, rng = Report("clocks", storage), Ledger(), random.Random(seed)
    if storage != combos.EMBEDDED:
        raise SystemExit("where the database's clock decides, the service's clock is not asked")
    with combos.opened(storage) as opened, nursery(shared) as forks:
        clock = opened.folder / "clock"
        put(clock, 0)
        wrongs = [*faults, f"clock={clock}"]
        service = opened.start(forks, SETTINGS, wrongs)
        for _ in range(rounds):
            one_round(service, clock, ledger, rng, report)
        # What died by a clock that was ahead is removed when the true time has passed that moment.
        tidied = service.log.read_text().count("maintenance removed:")
        put(clock, 2 * HOUR)
        swept(service, tidied + 1)
        finish(service, opened, forks, report)
    return report


if __name__ == "__main__":
    script(__doc__, run, unit="rounds", default=20)
