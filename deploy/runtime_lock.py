# ruff: noqa: INP001 - a script, not a package
"""The part of requirements.lock that some roots need, hashes included: `python runtime_lock.py LOCK [ROOT ...]`.

The lock names the tools of development too; it says of every package what asked for it, and that is followed here.
Without a root, or with the root `coatcheck`, it has what the service, with every extra, and the client depend on: they
are built from the tree. It resolves nothing and asks nobody.
"""

import re
import sys
from pathlib import Path

_SERVICE = "coatcheck"
_PROJECT = {f"{_SERVICE} (pyproject.toml)", "coatcheck-client"}
_NAME = re.compile(r"^([A-Za-z0-9._-]+)==")


def parts(lock: str) -> dict[str, str]:
    """Each package's own lines of a lock, by name."""
    found: dict[str, str] = {}
    name = ""
    for line in lock.splitlines(keepends=True):
        if match := _NAME.match(line):
            name = match[1]
        if name:
            found[name] = found.get(name, "") + line
    return found


def asked_by(part: str) -> set[str]:
    """Who asked for a package: names of packages, and the project with its groups."""
    return {m[1] for m in re.finditer(r"^    #(?: via)? +(\S.*)$", part, re.MULTILINE)}


def closure(all_parts: dict[str, str], roots: set[str]) -> set[str]:
    """The roots and what they need, by name, as far as the lock says who asked for what."""
    wanted = set(roots)
    while more := {n for n, part in all_parts.items() if n not in wanted and asked_by(part) & wanted}:
        wanted |= more
    return wanted


def needed(lock: str, roots: tuple[str, ...] = ()) -> str:
    """The lock cut down to the roots and what they need.

    Raises:
        ValueError: the lock has no such root, or none of its packages has hashes.
    """
    all_parts = parts(lock)
    wanted = set(roots) - {_SERVICE}
    if _SERVICE in roots or not roots:
        wanted |= {name for name, part in all_parts.items() if _PROJECT & asked_by(part)}
    if not wanted or wanted - all_parts.keys():
        raise ValueError(f"the lock does not name {sorted(wanted - all_parts.keys()) or 'the project'}")
    wanted = closure(all_parts, wanted)
    if bare := [name for name in sorted(wanted) if "--hash=sha256:" not in all_parts[name]]:
        raise ValueError(f"the lock has no hashes of {bare}")
    return "".join(all_parts[name] for name in sorted(wanted))


if __name__ == "__main__":
    sys.stdout.write(needed(Path(sys.argv[1]).read_text("utf-8"), tuple(sys.argv[2:])))
