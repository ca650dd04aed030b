"""What a harness found, as one JSON line, and how each harness is called. Decides nothing else."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SHOWN = 20


@dataclass
class Report:
    """What was done and which promises were broken."""

    harness: str
    storage: str
    counts: Counter[str] = field(default_factory=Counter[str])
    broken: Counter[str] = field(default_factory=Counter[str])
    problems: list[str] = field(default_factory=list[str])

    def broke(self, promise: str, detail: str) -> None:
        """A promise did not hold."""
        self.broken[promise] += 1
        if len(self.problems) < SHOWN:
            self.problems.append(f"{promise}: {detail}")

    def expect(self, promise: str, holds: bool, detail: object = "") -> None:
        """A promise, and whether it held."""
        if not holds:
            self.broke(promise, str(detail))

    @property
    def clean(self) -> bool:
        """Whether every promise held."""
        return not self.broken

    def line(self) -> str:
        """The report as one line of JSON."""
        return json.dumps(
            {
                "harness": self.harness,
                "storage": self.storage,
                "verdict": "held" if self.clean else "broken",
                "counts": dict(sorted(self.counts.items())),
                "broken": dict(self.broken),
                "problems": self.problems,
            }
        )


Run = Callable[[str, int, int, Sequence[str]], Report]
"""A harness: storage, amount, seed, what is wrong with the service."""


def script(doc: str | None, run: Run, *, unit: str, default: int) -> None:
    """Be the script of a harness; prints the line, exits 1 when a promise broke."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("storage", nargs="?", default="sqlite+files", help="sqlite+files, postgresql+files, ...")
    parser.add_argument(f"--{unit}", type=int, default=default, dest="amount")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--wrong", action="append", default=[], help="what is wrong with the service: see injected_faults.py"
    )
    asked = parser.parse_args()
    report = run(asked.storage, asked.amount, asked.seed, asked.wrong)
    print(report.line(), flush=True)  # noqa: T201 - it is what the script is for
    sys.exit(not report.clean)
