"""What failed in an output: the lines that state it and those around them, most telling first.

A line that merely mentions an error is no failure. Of lines that say the same, numbers and moments apart, the first
and the last are looked at; of those, what adds words comes first. So a thousand warnings do not hide the one line that
matters.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from msgspec import Struct

from coatcheck.core.kinds.cutter import Spot
from coatcheck.core.kinds.scan import Scan
from coatcheck.core.kinds.telling import ordered

_COLOUR: Final = r"(?:\x1b\[[0-9;]*m)*"
_STATED: Final = (
    rf"Traceback \(most recent|^E {{3}}|\b(?:FATAL|[Ff]atal)(?: error)?:|\[{_COLOUR}(?:ERROR|FATAL|FAIL){_COLOUR}\]"
    rf"|\bERROR[: ]|panicked at|^panic: |No space left on device|[Cc]annot allocate memory|[Cc]onnection refused"
    r"|Bus error|\bSIG(?:SEGV|ABRT|KILL|BUS|ILL)\b"
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
    r"|[Cc]ould not|[Pp]ermission denied|[Tt]imed[ -]?out\b|\b[Tt]imeout (?:of|after|while|waiting|expired|exceeded)"
    r"|\bexceeded\b|leaked|Unsupported\w+"
    r"|marked build as failure|[Ff]ailures?: [1-9]|[Ee]rrors: [1-9]|\b[1-9]\d* (?:failed|failing|errors?)\b"
)
"""Lines that often stand beside one."""


_VERDICT: Final = (
    r"BUILD SUCCESS|Tests run: \d|\b\d+ (?:passed|passing)\b|test result: |^Ran \d+ tests?"
    r"|^(?:Finished|Total time|Done in|real)\b|[Bb]uild (?:succeeded|finished|completed)"
    r"|\bexit(?:ed)? (?:with )?(?:code|status)"
    r"|^(?:ok|FAIL|PASS)\s+\S+\s+[(\d]|^OK\b"
)
"""Lines that say how it went."""


_EITHER: Final = Scan(f"{_STATED}|{_HINTED}|{_VERDICT}")
_VERDICTS: Final = Scan(_VERDICT)
_STATES: Final = Scan(_STATED)

_EXCUSED: Final = re.compile(
    rb"(?:\b0|\bno) (?:errors?|fail)|(?:errors?|failures?|failed)[:=] ?0\b|-if-|-on-error|errorprone"
    rb"|\b(?:DEBUG|TRACE)\b|[Rr]etry"
    rb"|[Dd]ownload|^\s*(?:raise|except|throw|catch|return|def|class|if|for|import|from|#|//|\*|\d+[:|])\b",
)
_WARNS: Final = re.compile(rb"\bWARN\b")
"""A warning states no failure, but may stand beside one."""
_NUMBERS: Final = re.compile(rb"0x[0-9a-f]+|[0-9a-f]{8,}|\d+")
_STAMP: Final = re.compile(rb"\A\S{0,3}(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d[.,\dZ+:]*\s*")
_FRAME: Final = re.compile(rb"\s+at |\s*\.\.\. \d+ more|\s+\d+: 0x|\[?\w*\]?\s*$|[\s\x1b\[\]\w;]*[-=*#~]{8,}")
"""Frames of a stack, blank lines and rules: they say little, however many words they have."""
_TEMPLATE: Final = 120
"""Bytes of a line that are compared to find repeats."""
_NEAR_LINES: Final = 4
_NEAR_BYTES: Final = 1_200
_MATCHES: Final = 400
_LATE: Final = 64 * 1024
_SHOWN: Final = 700
"""Bytes of a line that are shown; of a longer one, these from its beginning or around what was found."""
_BEFORE, _AFTER = 1, 3
"""Lines that belong to one that states a failure."""

_STATED_WORTH: Final = 4.0
_HINTED_WORTH: Final = 1.6
_BESIDE_WORTH: Final = 2.0
_FRAME_WORTH: Final = 0.25
_OWN: Final = 2.5
"""What it counts, in words, that a line states a failure, however few words it has."""
_EARLY: Final = 0.7
_LATER: Final = 2.0
"""How much the first of all groups is worth, and how much more the last: what comes late is close to how it ended."""
_CAUSE: Final = 1.3
"""What the first group that states a failure is worth at least: it may be the cause."""


class _Hit(Struct):
    start: int
    end: int
    stated: bool


def failures(data: bytes, base: int = 0) -> Iterator[Spot]:
    """Lines that state a failure and lines beside them, the most telling first; offsets count from `base`."""
    groups = _groups(_hits(data), data)
    stated = [place for place, group in enumerate(groups) if any(hit.stated for hit in group)]
    worth: dict[tuple[int, int], float] = {}
    for place, group in enumerate(groups):
        share = _EARLY + _LATER * place / len(groups)
        if place in stated[:1]:
            share = max(share, _CAUSE)
        for hit in group:
            worth[_shown(hit)] = share * (_STATED_WORTH if hit.stated else _HINTED_WORTH)
        for hit in group:
            for start, end in _beside(hit, data):
                plain = _FRAME_WORTH if _FRAME.match(data, start, end) else _BESIDE_WORTH
                worth.setdefault((start, end), share * plain)
    units = sorted(worth)
    apart = [unit for unit, after in pairwise([*units, (len(data), 0)]) if unit[1] <= after[0]]
    own = [_OWN if worth[unit] >= _STATED_WORTH else 0.0 for unit in apart]
    return ordered(data, apart, [worth[unit] for unit in apart], own, base)


def states_failure(line: bytes) -> bool:
    """Whether a line, taken by itself, states a failure."""
    return _STATES.find(line) is not None and not _EXCUSED.search(line) and not _WARNS.search(line)


def _shown(hit: _Hit) -> tuple[int, int]:
    return hit.start, min(hit.end, hit.start + _SHOWN)


def _beside(hit: _Hit, data: bytes) -> list[tuple[int, int]]:
    """The lines around a hit that are short enough to be read."""
    found: list[tuple[int, int]] = []
    start = hit.start
    for _ in range(_BEFORE):
        before = data.rfind(b"\n", 0, max(0, start - 1)) + 1
        if before < start and start - before <= _SHOWN:
            found.append((before, start))
        start = before
    end = hit.end
    for _ in range(_AFTER):
        after = data.find(b"\n", end) + 1 or len(data)
        if end < after <= end + _SHOWN:
            found.append((end, after))
        end = after
    return found


def _hits(data: bytes) -> list[_Hit]:
    """Hits of the first matches and, where there are very many, of those near the end: of alike ones first and last."""
    first: dict[bytes, _Hit] = {}
    last: dict[bytes, _Hit] = {}
    stopped = _scan(data, 0, first, last)
    if stopped < len(data):
        _scan(data, max(stopped, data.rfind(b"\n", 0, max(0, len(data) - _LATE)) + 1), first, last)
    return sorted([*first.values(), *last.values()], key=lambda hit: hit.start)


def _scan(data: bytes, at: int, first: dict[bytes, _Hit], last: dict[bytes, _Hit]) -> int:
    """Note what a line that matches says, by its template; answers where it stopped."""
    for number, (start, end, low, high) in enumerate(_EITHER.lines(data, at)):
        if number == _MATCHES:
            return start
        line = data[start : min(end, start + 2 * _TEMPLATE)]
        excused = _EXCUSED.search(line) is not None
        verdict = _VERDICTS.find(data, start, end) is not None
        if excused and not verdict:
            continue
        states = not excused and _STATES.find(data, low, high) is not None and not _WARNS.search(line)
        hit = _Hit(start if low - start < _SHOWN else _sharp(data, low - _SHOWN // 4), end, states)
        template = _NUMBERS.sub(b"#", _STAMP.sub(b"", line[:_TEMPLATE]))
        if template in first:
            last[template] = hit if verdict else _Hit(hit.start, hit.end, stated=False)
        else:
            first[template] = hit
    return len(data)


def _groups(hits: list[_Hit], data: bytes) -> list[list[_Hit]]:
    groups: list[list[_Hit]] = []
    for hit in hits:
        last = groups[-1] if groups else None
        if (
            last
            and hit.start - last[-1].end <= _NEAR_BYTES
            and data.count(b"\n", last[-1].end, hit.start) <= _NEAR_LINES
        ):
            last.append(hit)
        else:
            groups.append([hit])
    return groups


def _sharp(data: bytes, at: int) -> int:
    """A place at or after `at` that is not inside a character."""
    while data[at] & 0xC0 == 0x80:  # noqa: PLR2004 - continues a UTF-8 sequence
        at += 1
    return at
