"""Every harness at length, on every combination of storage that it can run on: one JSON line each.

python tests/faults/soak.py                                         over an hour on two cores
python tests/faults/soak.py postgresql+s3 --only kill --share 0.1   one of them, a tenth as long

Each harness runs in a process of its own, so that one that breaks off ends no other. Ends with 1 when one did, or when
a promise did not hold.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from support.combos import COMBOS, EMBEDDED, POSTGRES, S3

HERE = Path(__file__).parent


class Run(NamedTuple):
    """A harness, where, and for how long."""

    harness: str
    storage: str
    unit: str
    amount: int
    wrong: tuple[str, ...] = ()


RUNS = (
    Run("kill", EMBEDDED, "cycles", 300),
    Run("sweep", EMBEDDED, "operations", 60_000),
    Run("power", EMBEDDED, "cycles", 40),
    Run("ioerrors", EMBEDDED, "lives", 150),
    Run("diskfull", EMBEDDED, "rounds", 30),
    Run("vanish", EMBEDDED, "clients", 600),
    Run("bitrot", EMBEDDED, "flips", 400),
    Run("clocks", EMBEDDED, "rounds", 20),
    Run("backup", EMBEDDED, "rounds", 10),
    Run("kill", POSTGRES, "cycles", 300),
    Run("sweep", POSTGRES, "operations", 20_000),
    Run("vanish", POSTGRES, "clients", 600),
    Run("replicas", POSTGRES, "leaders", 100, ("all-lead",)),
    Run("restarts", POSTGRES, "outages", 30),
    Run("kill", S3, "cycles", 300),
    Run("sweep", S3, "operations", 10_000),
    Run("vanish", S3, "clients", 600),
    Run("replicas", S3, "leaders", 100),
    Run("restarts", S3, "outages", 12),
    Run("slow_s3", S3, "outages", 40),
)


def command(run: Run, share: float, seed: int) -> list[str]:
    """How a harness is called."""
    asked = [sys.executable, str(HERE / "harnesses" / f"{run.harness}.py"), run.storage]
    asked += [f"--{run.unit}", str(max(1, round(run.amount * share))), "--seed", str(seed)]
    return asked + [word for wrong in run.wrong for word in ("--wrong", wrong)]


def main() -> int:
    """Run what was asked for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("storage", nargs="*", metavar="STORAGE", help=f"of {', '.join(COMBOS)}; none is all")
    parser.add_argument("--only", action="append", metavar="HARNESS", choices=sorted({run.harness for run in RUNS}))
    parser.add_argument("--share", type=float, default=1.0, help="of the whole length")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if unknown := set(asked.storage) - set(COMBOS):
        parser.error(f"unknown storage: {', '.join(sorted(unknown))}")
    broken: list[str] = []
    for run in RUNS:
        if run.storage not in (asked.storage or COMBOS) or run.harness not in (asked.only or [run.harness]):
            continue
        start = time.monotonic()
        environment = {"PATH": os.defpath, "PYTHONPATH": str(HERE.parent)}
        done = subprocess.run(command(run, asked.share, asked.seed), env=environment, check=False)
        took = time.monotonic() - start
        print(f"{run.harness} on {run.storage}: {took:.0f} s", file=sys.stderr, flush=True)  # noqa: T201 - a script
        if done.returncode:
            broken.append(f"{run.harness} on {run.storage}")
    if broken:
        print(f"broken: {', '.join(broken)}", file=sys.stderr)  # noqa: T201 - as above
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
