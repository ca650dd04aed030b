"""What the lines of an output add up to: levels, test outcomes, statuses of requests, findings by rule, lines by file.

A tally is begun only where enough of the first lines have what it counts, and then every line is looked at. A text in
which few lines are levelled, say, is no levelled log, and a count of its levels would mean nothing.
"""

# ruff: noqa: E501 - an expression is read best whole

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, final

from msgspec import Struct

_LOOKED: Final = 24
"""Lines, evenly spread over the first block, that decide which tallies are begun."""
_MOST: Final = 5_000
"""Different things that one tally counts; one that meets more says nothing."""
_LONGEST: Final = 200
"""Bytes at the beginning of a line, and as many at its end, that are looked at."""
_DIGITS: Final = b"0123456789"

_LEVEL: Final = re.compile(
    rb"(?:^|[^A-Za-z\s]\s*)(TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|SEVERE|FATAL|CRIT(?:ICAL)?|PANIC|EMERG)"
    rb"(?=[\s\]>):|,\"']|$)"
    rb"|(?:\[|<|\b(?:level|lvl|severity)\"?[=:] ?\"?)(trace|debug|info|notice|warn(?:ing)?|error|err|fatal|crit(?:ical)?"
    rb"|panic|emerg)(?=[\s\]>,\"']|$)"
)
_OUTCOME: Final = re.compile(
    rb"(?:::\S+.*|\s\.\.\. )(PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR|ok|FAIL)(?: +\[ *\d*%\])?\s*$"
    rb"|^(ok|not ok) |^\s*--- (PASS|FAIL|SKIP):"
)
_STATUS: Final = re.compile(rb"\" ([1-5]\d\d) (?:\d+|-)")
_RULE: Final = re.compile(
    rb"\[(-W[\w=+-]+)\]|\berror\[(E\d{4})\]|\berror (TS\d+):|^\S+?:\d+(?::\d+)?:? ([A-Z]{1,5}\d{2,5})\b|^([A-Z]{1,4}\d{3,5}) "
    rb"|^\S+?:\d+(?::\d+)?: .*\[([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\]\s*$"
)
_PLACE: Final = re.compile(rb"([^\s:]{1,300}):(?!:)(?:\d+(?::\d+)?[:\s-])?")
_BESIDE: Final = re.compile(rb"[^\s:]{1,300}-\d+-|--$")
_FILE: Final = re.compile(r"(?:[^/]*/)+[^/]*[^\d.:/][^/]*|[^/]*[A-Za-z_][^/]*\.[A-Za-z]\w{0,7}")

Count = Callable[[bytes], bytes | None]


def _matched(pattern: re.Pattern[bytes]) -> Count:
    def count(line: bytes) -> bytes | None:
        found = pattern.search(line)
        return found[found.lastindex or 0] if found else None

    return count


def _file(line: bytes) -> bytes | None:
    found = _PLACE.match(line)
    return found[1] if found and _FILE.fullmatch(found[1].decode("utf-8", "replace")) else None


class _Tally(Struct, frozen=True):
    label: str
    count: Count
    share: float
    """Of the lines looked at first, those that must have it."""
    digits: bool
    """Whether lines that differ in digits only may count differently."""
    most: int = 12
    """Things that are named."""


_TALLIES: Final = (
    _Tally("Levels", _matched(_LEVEL), 0.25, digits=False),
    _Tally("Outcomes", _matched(_OUTCOME), 0.25, digits=False),
    _Tally("Statuses", _matched(_STATUS), 0.4, digits=True),
    _Tally("Findings by rule", _matched(_RULE), 0.15, digits=True, most=8),
    _Tally("Lines by file", _file, 0.5, digits=True, most=24),
)


@final
class Tallies:
    """Counts a text that is fed in blocks of whole lines, as a person would have seen them."""

    def __init__(self) -> None:
        self._counts: dict[int, Counter[bytes]] | None = None

    def feed(self, block: bytes) -> None:
        """Counts the lines of the next block. Costs next to nothing for a text in which nothing is tallied."""
        lines = block.split(b"\n")
        if self._counts is None:
            self._counts = {number: Counter() for number in _begun(lines)}
        if not self._counts:
            return
        if any(not _TALLIES[number].digits for number in self._counts):
            shapes = Counter(block.translate(None, _DIGITS).split(b"\n"))
        else:
            shapes = Counter[bytes]()
        for number, counts in self._counts.items():
            tally = _TALLIES[number]
            if len(counts) > _MOST:
                continue
            if tally.digits:
                counts.update(found for line in lines if (found := tally.count(_ends(line))) is not None)
            else:
                for shape, times in shapes.items():
                    found = tally.count(_ends(shape))
                    if found is not None:
                        counts[found] += times

    def facts(self) -> tuple[str, ...]:
        """Returns a line for each tally that was begun, in whole numbers of lines."""
        out: list[str] = []
        for number, counts in (self._counts or {}).items():
            if 0 < len(counts) <= _MOST:
                tally = _TALLIES[number]
                named = [(name.decode("utf-8", "replace"), count) for name, count in _ordered(counts)]
                total = f"{counts.total()} in {len(counts)}: " if tally.label == "Lines by file" else ""
                out.append(f"{tally.label}: {total}{listed(named, tally.most)}")
        return tuple(out)


def _ordered(counts: Counter[bytes]) -> list[tuple[bytes, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def listed(counts: list[tuple[str, int]], most: int) -> str:
    """Returns `a.py 12, b.py 3, … 4 more`: the first `most` of some names with their counts."""
    shown = ", ".join(f"{name} {count}" for name, count in counts[:most])
    return f"{shown}, … {len(counts) - most} more" if len(counts) > most else shown


def _begun(lines: list[bytes]) -> Iterable[int]:
    filled = [line for line in lines if line and not line.isspace()]
    looked = [_ends(line) for line in filled[:: max(1, len(filled) // _LOOKED)]]
    if len(looked) < 5:  # noqa: PLR2004 - a tally of a handful of lines says less than the lines
        return
    for number, tally in enumerate(_TALLIES):
        found = sum(tally.count(line) is not None for line in looked)
        if tally.label == "Lines by file":
            found += sum(_BESIDE.match(line) is not None for line in looked) if found else 0
        if found >= tally.share * len(looked):
            yield number


def _ends(line: bytes) -> bytes:
    return line if len(line) <= 2 * _LONGEST else line[:_LONGEST] + b" " + line[-_LONGEST:]
