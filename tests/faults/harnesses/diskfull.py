"""Fill the disk under the service, again and again: it says `storage_full` with a card that is not
stored, is not ready, keeps reading, and takes payloads again without a restart as soon as there is room; everything
acknowledged is there.

python tests/faults/harnesses/diskfull.py sqlite+files --rounds 30        prints one JSON line

The disk is a real one of a few MiB: a tmpfs in a mount namespace of the script's own, which needs no privilege where
user namespaces are allowed. Elsewhere it is a limit on the size of files (RLIMIT_FSIZE), and the report says so.
"""

import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from coatcheck.usecases.operations.show_overview import REUSE_SECONDS
from faults import combos
from faults.caller import Answer, Caller
from faults.fork_server import Nursery, Running, nursery
from faults.ledger import Ask, Ledger
from faults.report import Report, script
from faults.steps import finish, verify_all

SETTINGS: dict[str, int | str] = {"sweep_seconds": 1, "grace_seconds": 0, "lease_seconds": 2, "ttl": 86400}
DISK = 16 * 1024**2
SPARE = 3 * 1024**2
"""What is given back to a full disk."""
LIMIT = 2 * 1024**2
"""Largest file, where there is only a limit."""
MARK = "COATCHECK_FAULTS_DISK"
INLINE, FILE = 20_000, 400_000


def inside() -> Path | None:
    """The small disk, when this process was started to have one."""
    found = os.environ.get(MARK)  # noqa: TID251 - how the script tells itself
    return Path(found) if found else None


def with_disk(arguments: Sequence[str], *, limit: bool = False) -> subprocess.CompletedProcess[str]:
    """Run this script again on a small disk of its own, or with a limit where that is forbidden or asked for."""
    with tempfile.TemporaryDirectory(prefix="disk-") as folder:
        mount = f'mount -t tmpfs -o size={DISK} none "$1" && shift && exec "$@"'
        own = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", folder]
        again = [sys.executable, __file__, *arguments]
        env = {k: v for k, v in os.environ.items() if not k.startswith("COATCHECK_")}  # noqa: TID251
        env["PYTHONPATH"] = str(Path(__file__).parents[2])
        try:
            allowed = not limit and subprocess.run([*own, "true"], capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            allowed = False
        command = [*own, *again] if allowed else again
        return subprocess.run(
            command, env=env | {MARK: folder if allowed else "limit"}, stdout=subprocess.PIPE, text=True, check=False
        )


class Disk:
    """Room that can be taken and given back."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._filler = None if folder is None else folder / "filler"

    @property
    def faults(self) -> list[str]:
        """What the service needs to be told when there is no disk of its own."""
        return [] if self.folder else [f"fsize={LIMIT}"]

    def take(self, service: Running) -> None:
        """Make it small."""
        if self._filler is None:
            size = max((p.stat().st_size for p in service.data.rglob("*") if p.is_file()), default=0)
            resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (max(size, LIMIT), resource.RLIM_INFINITY))
            return
        room = shutil.disk_usage(self._filler.parent).free
        with self._filler.open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, max(room - SPARE, 4096))

    def give(self, service: Running) -> None:
        """Make room again, as an administrator does."""
        if self._filler is None:
            resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        else:
            self._filler.unlink()


def refuses(answer: Answer, disk: Disk) -> bool:
    """Whether an answer says that there is no room: a card that is not stored, or an error where there is none to give.

    A mere limit on files looks to SQLite like a failing disk.
    """
    said = answer.json
    codes = [w["code"] for w in said["warnings"]] if answer.status == 202 else [said.get("code")]
    honest = {"storage_full"} if disk.folder else {"storage_full", "storage_unavailable"}
    return answer.status in {202, 503, 507} and not said.get("stored", False) and not honest.isdisjoint(codes)


def fill(caller: Caller, ledger: Ledger, rng: random.Random, size: int, disk: Disk, report: Report) -> None:
    """Post until it is refused, then a few times more."""
    refused = 0
    for _ in range(3000):
        payload = rng.randbytes(size)
        asked = Ask(payload, f"call_{rng.randrange(10**12)}")
        answer = caller.post(payload, **asked.said())
        if answer.status == 201:
            ledger.note(answer.json["id"], asked)
            report.counts["stored"] += 1
            continue
        refused += 1
        report.counts["refused"] += 1
        report.expect("a full disk is said so", refuses(answer, disk), answer)
        if refused == 5:
            return
    report.broke("the disk is full", "it never was")


def one_round(service: Running, ledger: Ledger, rng: random.Random, disk: Disk, report: Report) -> None:
    """Full, then not."""
    caller = service.caller()
    disk.take(service)
    size = rng.choice((INLINE, FILE)) if disk.folder else INLINE
    fill(caller, ledger, rng, size, disk, report)
    if size == INLINE and disk.folder:  # within a mere limit, what the log has room for can still be written
        ready = caller.ready()
        codes = {reason["code"] for reason in ready.json.get("reasons", ())}
        report.expect("a full service is not ready", (ready.status, codes) == (503, {"storage_full"}), ready)
    for name in rng.sample(ledger.names(), min(20, len(ledger.names()))):
        ledger.verify(caller, name, report)
    disk.give(service)
    time.sleep(REUSE_SECONDS)
    ready = caller.ready()
    report.expect("room makes it ready", ready.status == 200, ready)
    for payload in (rng.randbytes(INLINE), rng.randbytes(FILE)):
        name = ledger.store(caller, Ask(payload, f"call_{rng.randrange(10**12)}"), report)
        if name is not None:
            ledger.verify(caller, name, report)
    for name in rng.sample(ledger.names(), len(ledger.names()) * 3 // 4):
        if ledger.kept[name].fate == "kept":
            ledger.delete(caller, name, report)
    caller.close()
    report.counts["rounds"] += 1


def run(storage: str, rounds: int, seed: int, faults: Sequence[str] = (), shared: Nursery | None = None) -> Report:
    """The rounds. Call it inside: see `with_disk`."""
    report, ledger, rng = Report("diskfull", storage), Ledger(), random.Random(seed)
    found = inside()
    disk = Disk(found if found is not None and found.is_dir() else None)
    report.counts["on a disk of its own"] = int(disk.folder is not None)
    with combos.opened(storage) as opened, nursery(shared) as forks:
        where = combos.Storage(storage, disk.folder or opened.folder)
        service = where.start(forks, SETTINGS, [*faults, *disk.faults])
        for _ in range(rounds):
            one_round(service, ledger, rng, disk, report)
        verify_all(service, ledger, report)
        finish(service, where, forks, report)
    return report


if __name__ == "__main__":
    if inside() is None:
        done = with_disk(sys.argv[1:])
        sys.stdout.write(done.stdout)
        sys.exit(done.returncode)
    script(__doc__, run, unit="rounds", default=30)
