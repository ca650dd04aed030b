"""Diffs: which files, how many hunks, how many lines in and out; then the changes that say most."""

import re
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import Facts, Said, Sample
from coatcheck.core.kinds.cutter import Description, Plan, Spots, plural
from coatcheck.core.kinds.telling import ordered, pieces

_STRUCTURE: Final = re.compile(rb"\n(?:diff --git |\+\+\+ |@@ -\d)")
_GIT: Final = re.compile(rb"diff --git a/(\S{1,300}) b/(\S{1,300})")
_NAME: Final = re.compile(rb"\+\+\+ (?:b/)?([^\t\r\n]{1,300})")
_FILES: Final = 60
_HUNK: Final = 240
"""Bytes of changed lines that are shown together."""
_WORTH: Final = {ord("+"): 1.5, ord("-"): 1.2, ord("@"): 0.8, ord(" "): 0.5}
"""What a piece is worth by its first byte; headers, whose names are counted above the text, next to nothing."""
_HEADER: Final = 0.2


class _File(Struct):
    name: str
    hunks: int = 0
    added: int = 0
    removed: int = 0


class DiffCutter:
    """Unified and git diffs."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """One line per file with its counts, from what was sampled."""
        del said
        files = _files(sample.head)
        if not files:
            return Description()
        added, removed = sum(file.added for file in files), sum(file.removed for file in files)
        hunks = sum(file.hunks for file in files)
        where = "" if sample.whole else " (in the first 256 KB)"
        lines = [f"{plural(len(files), 'file')}, {plural(hunks, 'hunk')}, +{added} -{removed}{where}"]
        lines += [f"{file.name} +{file.added} -{file.removed}" for file in files[:_FILES]]
        if len(files) > _FILES:
            lines.append(f"… {len(files) - _FILES} more files")
        return Description(shape=tuple(lines))

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """Files first, then the changes that say most different things."""
        del facts
        units = pieces(sample.head, _HUNK)
        worth = [_WORTH.get(sample.head[start], _HEADER) for start, _ in units]
        wanted = Spots(ordered(sample.head, units, worth)) if len(units) > 1 else ()
        return Plan(shape=0.35, spots=0.9, tail=0.25, hints=0.0, wanted=wanted)


def _files(data: bytes) -> list[_File]:
    """Files in order, each once, with what was counted between one line of the structure and the next."""
    files: dict[str, _File] = {}
    current: _File | None = None
    begins = [match.start() + 1 for match in _STRUCTURE.finditer(data)]
    begins = [0, *begins]
    for start, end in zip(begins, [*begins[1:], len(data)], strict=True):
        if data.startswith(b"@@", start):
            if current is not None:
                current.hunks += 1
                current.added += data.count(b"\n+", start, end)
                current.removed += data.count(b"\n-", start, end) - _headers(data, start, end)
            continue
        name = _named(data, start)
        if name:
            current = files.setdefault(name, _File(name))
    return list(files.values())


def _headers(data: bytes, start: int, end: int) -> int:
    """1 where the stretch ends with the `---` of the next file."""
    return int(data.startswith(b"+++ ", end) and data.rfind(b"\n--- ", start, end) == data.rfind(b"\n", start, end - 1))


def _named(data: bytes, start: int) -> str:
    match = _GIT.match(data, start)
    if match:
        return match.group(2).decode("utf-8", "replace")
    match = _NAME.match(data, start)
    before = data.rfind(b"\n", 0, max(0, start - 1)) + 1
    if match is None or not data.startswith(b"--- ", before) or match.group(1) == b"/dev/null":
        return ""
    return match.group(1).decode("utf-8", "replace").removesuffix("\r")
