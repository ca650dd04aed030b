"""Diffs: which files, how many hunks, how many lines in and out."""

import re
from typing import Final

from coatcheck.core.artifact import Facts, Said, Sample
from coatcheck.core.kinds.cutter import Description, Plan, plural

_HEADER: Final = re.compile(
    rb"^(?:diff --git a/(\S{1,300}) b/(\S{1,300})|\+\+\+ (?:b/)?([^\t\r\n]{1,300}))", re.MULTILINE
)
_FILES: Final = 60


class DiffCutter:
    """Unified and git diffs."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """One line per file with its counts, from what was sampled."""
        del said
        files: dict[str, list[int]] = {}
        current: list[int] | None = None
        in_hunk = False
        for line in sample.head.split(b"\n"):
            match = _HEADER.match(line)
            if match and not (in_hunk and not line.startswith(b"diff ")):
                name = next(group for group in match.groups()[::-1] if group).decode("utf-8", "replace")
                current = files.setdefault(name, [0, 0, 0]) if name != "/dev/null" else current
                in_hunk = False
            elif line.startswith(b"@@") and current is not None:
                current[0] += 1
                in_hunk = True
            elif in_hunk and current is not None:
                current[1] += line.startswith(b"+")
                current[2] += line.startswith(b"-")
        if not files:
            return Description()
        added, removed = sum(f[1] for f in files.values()), sum(f[2] for f in files.values())
        hunks = sum(f[0] for f in files.values())
        where = "" if sample.whole else " (in the first 256 KB)"
        lines = [f"{plural(len(files), 'file')}, {plural(hunks, 'hunk')}, +{added} -{removed}{where}"]
        lines += [f"{name} +{f[1]} -{f[2]}" for name, f in list(files.items())[:_FILES]]
        if len(files) > _FILES:
            lines.append(f"… {len(files) - _FILES} more files")
        return Description(shape=tuple(lines))

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """Files first, then the first hunks."""
        del sample, facts
        return Plan(shape=0.35, tail=0.25, hints=0.0)
