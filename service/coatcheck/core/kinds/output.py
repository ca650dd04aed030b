"""Command output and logs: the end, and the failure: its first cause and its last summary.

A line that merely mentions an error is not the failure. Lines that state one are grouped with a little context;
repeats of the same template count twice at most, so that a thousand warnings do not hide the one line that matters.
"""

import re
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import Facts, Kind, Said, Sample
from coatcheck.core.kinds.cutter import Description, Plan, Spot
from coatcheck.core.kinds.scan import Scan

_COLOUR: Final = r"(?:\x1b\[[0-9;]*m)*"
_STATED: Final = (
    rf"Traceback \(most recent|^E {{3}}|\b[Ff]atal(?: error)?:|\[{_COLOUR}(?:ERROR|FATAL|FAIL){_COLOUR}\]"
    rf"|\bERROR[: ]|panicked at|^panic: "
    r"|BUILD FAIL|\bFAILED\b|FAILURE!|<<< (?:FAILURE|ERROR)|\b[Ee]rror(?:\[\w+\])?: "
    r"|\berror [A-Z]{1,4}\d{3,5}\b|:error\]"
    r"|^--- FAIL|^FAIL\b|^not ok\b|TEST-UNEXPECTED|npm ERR!|[Ss]egmentation fault|core dumped|^Killed$|LEAKING"
    r"|OutOfMemory"
    r"|✗|✖|^\S+(?:Error|Exception): |\bAssertionError\b|Aborting\b|max run time exceeded"
)
"""Lines that state a failure."""
_HINTED: Final = (
    r"Exception\b|Caused by: |[Nn]o such file|command not found|cannot (?:find|access|resolve|open|stat)"
    r"|undefined reference"
    r"|[Cc]ould not|[Pp]ermission denied|[Tt]imed? ?out\b|\bexceeded\b|leaked|Unsupported\w+"
    r"|marked build as failure|[Ff]ailures?: [1-9]|[Ee]rrors: [1-9]|\b[1-9]\d* (?:failed|failing|errors?)\b"
)
"""Lines that often stand beside one."""


_EITHER: Final = Scan(f"{_STATED}|{_HINTED}")
_STATES: Final = Scan(_STATED)

_EXCUSED: Final = re.compile(
    rb"(?:\b0|\bno) (?:errors?|fail)|(?:errors?|failures?|failed)[:=] ?0\b|-if-|-on-error|errorprone|\b(?:WARN"
    rb"|DEBUG|TRACE)\b|[Rr]etry"
    rb"|[Dd]ownload|^\s*(?:raise|except|throw|catch|return|def|class|if|for|import|from|#|//|\*|\d+[:|])\b",
)
_NUMBERS: Final = re.compile(rb"0x[0-9a-f]+|[0-9a-f]{8,}|\d+")
_STAMP: Final = re.compile(rb"\A\S{0,3}(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d[.,\dZ+:]*\s*")
_LINE_CAP: Final = 600
_TEMPLATE: Final = 120
"""Bytes of a line that are compared to find repeats."""
_NEAR_LINES: Final = 4
_NEAR_BYTES: Final = 1_200
_GROUP_BYTES: Final = 2_000
_SPOTS: Final = 24
_MATCHES: Final = 400
_LATE: Final = 64 * 1024


class _Hit(Struct):
    start: int
    end: int
    stated: bool


def failures(data: bytes) -> list[Spot]:
    """Regions that look like the failure, in offsets of `data`, most telling first."""
    groups = _groups(_hits(data), data)
    stated = [group for group in groups if any(hit.stated for hit in group)]
    ordered = [*stated[-1:], *stated[:1], *reversed(stated[1:-1])]
    ordered += [group for group in reversed(groups) if group not in stated]
    return [_region(group, data) for group in ordered[:_SPOTS]]


def _hits(data: bytes) -> list[_Hit]:
    """Hits of the first matches and, where there are very many, of those near the end."""
    seen: dict[bytes, int] = {}
    hits, stopped = _scan(data, 0, seen)
    if stopped < len(data):
        late = max(stopped, data.rfind(b"\n", 0, max(0, len(data) - _LATE)) + 1)
        hits += _scan(data, late, seen)[0]
    return hits


def _scan(data: bytes, at: int, seen: dict[bytes, int]) -> tuple[list[_Hit], int]:
    hits: list[_Hit] = []
    for number, (start, end, low, high) in enumerate(_EITHER.lines(data, at)):
        if number == _MATCHES:
            return hits, start
        line = data[start : min(end, start + 2 * _TEMPLATE)]
        template = _NUMBERS.sub(b"#", _STAMP.sub(b"", line[:_TEMPLATE]))
        count = seen[template] = seen.get(template, 0) + 1
        if count > 2 or _EXCUSED.search(line):  # noqa: PLR2004 - the first, and one more
            continue
        states = _STATES.find(data, low, high) is not None
        hits.append(_Hit(max(start, low - _LINE_CAP), min(end, high + _LINE_CAP), states))
    return hits, len(data)


def _groups(hits: list[_Hit], data: bytes) -> list[list[_Hit]]:
    groups: list[list[_Hit]] = []
    for hit in hits:
        last = groups[-1] if groups else None
        if (
            last
            and hit.start - last[-1].end <= _NEAR_BYTES
            and hit.end - last[0].start <= _GROUP_BYTES
            and data.count(b"\n", last[-1].end, hit.start) <= _NEAR_LINES
        ):
            last.append(hit)
        else:
            groups.append([hit])
    return groups


def _region(group: list[_Hit], data: bytes) -> Spot:
    """From the line before the first hit to two lines after the last."""
    start = group[0].start
    before = data.rfind(b"\n", 0, max(0, start - 1)) + 1
    if start - before <= _LINE_CAP // 2:
        start = before
    end = group[-1].end
    for _ in range(2):
        after = data.find(b"\n", end) + 1 or len(data)
        if after - end <= _LINE_CAP // 2:
            end = after
    return Spot(start, end)


class OutputCutter:
    """What a command or a program printed."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """Nothing beyond markers and hints, which every kind has."""
        del sample, said
        return Description()

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """The end, because that is where outputs conclude; what failed; a little of the beginning."""
        wanted = failures(sample.head)
        if not sample.whole:
            at = sample.size - len(sample.tail)
            late = [Spot(spot.start + at, spot.end + at) for spot in failures(sample.tail)]
            wanted = (
                [spot for pair in zip(late, wanted, strict=False) for spot in pair]
                + late[len(wanted) :]
                + wanted[len(late) :]
            )
        log = facts.kind is Kind.LOG
        return Plan(shape=0.0, spots=0.6 if log else 0.4, tail=0.7 if log else 0.5, wanted=tuple(wanted), hints=0.08)
