"""Bring the shipped redaction rules to another release of gitleaks.

    python maintenance/update_redaction_rules.py <file> <version> <date>

`file` is `config/gitleaks.toml` of that release or commit, or its program, which has the file inside (as a
distribution's package installs it); `date` is when it was released. Everything is compiled
first; what cannot work, what came and what went is printed; then the file and the pin in `adapters/redaction_rules.py`
are written. Look at the licence of the release, and at NOTICE, before committing.
"""

import argparse
import hashlib
import re
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "service"))

from coatcheck.adapters import redaction_rules  # noqa: E402 - from this tree
from coatcheck.core.redact.rules import read_rules  # noqa: E402

TARGET = ROOT / "service/coatcheck/core/redact" / redaction_rules.FILE
PIN = ROOT / "service/coatcheck/adapters/redaction_rules.py"
_BEGIN = b"# This file has been auto-generated. Do not edit manually."
_OTHER = re.compile(rb"[^\t\n\x20-\x7e]")


def configuration(data: bytes) -> bytes:
    """The configuration in a file or a program.

    Raises:
        ValueError: there is none.
    """
    begin = data.find(_BEGIN)
    if begin < 0:
        raise ValueError("This is neither a gitleaks configuration nor a program with one inside.")
    end = _OTHER.search(data, begin)
    return data[begin : len(data) if end is None else end.start()].rstrip(b"\n") + b"\n"


def main() -> None:
    """Read, compile, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("version", help="of the release, such as 8.26.0, or the commit's first 12 digits")
    parser.add_argument("date", help="of the release, such as 2026-07-22", type=date.fromisoformat)
    asked = parser.parse_args()
    made = configuration(asked.file.read_bytes())
    before, after = read_rules(TARGET.read_text(encoding="utf-8")), read_rules(made.decode())
    old, new = ({rule.name: rule.source for rule in rules.rules} for rules in (before, after))
    lines: list[str] = []
    for sign, names in (("+", new.keys() - old.keys()), ("-", old.keys() - new.keys())):
        lines += [f"{sign} {name}" for name in sorted(names)]
    lines += [f"~ {name}" for name in sorted(old.keys() & new.keys()) if old[name] != new[name]]
    lines += [f"! {left.rule}: {left.why}" for left in after.left_out]
    TARGET.write_bytes(made)
    pin = PIN.read_text(encoding="utf-8")
    pin = re.sub(r'VERSION: Final = ".*"', f'VERSION: Final = "{asked.version}"', pin)
    pin = re.sub(r'RELEASED: Final = ".*"', f'RELEASED: Final = "{asked.date}"', pin)
    pin = re.sub(r'SHA256: Final = ".*"', f'SHA256: Final = "{hashlib.sha256(made).hexdigest()}"', pin)
    PIN.write_text(pin, encoding="utf-8")
    lines.append(f"{len(new)} rules of gitleaks {asked.version} and ours. Update NOTICE, then run tests/redact.")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
