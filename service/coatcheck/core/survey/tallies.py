"""Tallies of an output's lines: levels, test outcomes, statuses of requests, findings by rule, lines by file.

A tally is started only if enough of the first lines have what it counts, and then every line is examined. If only few
lines have a level, the text is not a levelled log, and counting levels would be meaningless.
"""

# ruff: noqa: E501 - an expression is read best whole

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, cast, final

from msgspec import Struct

from coatcheck.core.caches import remember
from coatcheck.core.text.cuts import align
from coatcheck.core.text.plural import counted, first_of
from coatcheck.core.text.scan import BlockPattern
from coatcheck.core.text.terminal import visible

_LOOKED: Final = 24
"""Lines, evenly spread over the first block, that decide which tallies are started."""
_HINTED: Final = 3
"""Lines that may have what is counted, after which this is checked."""
_MOST: Final = 5_000
"""Maximum different things that one tally counts; with more it is dropped."""
_MOST_LINES: Final = 0.5
"""Share of the lines from which those without a level are what goes on below one; other lines may say more."""
_LONGEST: Final = 200
"""Bytes at the beginning of a line, and at its end, that are examined."""
_DIGITS: Final = b"0123456789"
_NAMING: Final = b"=:"
"""What a name ends with before its value."""

_NAMES: Final = rb"TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|SEVERE|FATAL|CRIT(?:ICAL)?|PANIC|EMERG"
_LEVEL: Final = re.compile(
    rb"(?<![A-Za-z_./=-])(" + _NAMES + rb")(?=[\s\]>):|,\"']|$)"
    rb"|(?:\[|<|\b(?:level|lvl|severity)\"?[=:] ?\"?)("
    + _NAMES.lower()
    + rb"|(?<==)(?:"
    + _NAMES
    + rb"))(?=[\s\]>,\"']|$)"
)
_DATED: Final = re.compile(rb"^\W{0,3}(?:--|//)|(?:^|[^A-Za-z]|T)::|(?:\b|_)(?:time|ts|timestamp|t|date)\"?[=:]")
"""Matches what remains of a date or a time of day without its digits, or the name of one."""
_FAR: Final = 160
"""Bytes of a line within which its level must be."""
_OUTCOME: Final = re.compile(
    rb"^[^\s:]+::\S.*\s(PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR)(?: \(.*\))?(?: +\[ *%\])?\s*$"
    rb"|^\[gw\] \[ *%\] (PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR) \S+::"
    rb"|^\s*(?!E |\w*(?:Error|Exception|Failure): )\S.*\s\.\.\. (ok|FAIL|FAILED|ERROR|ignored|skipped)(?: ['\"].*)?\s*$"
    rb"|^(ok|not ok) (?:\s*$| (?!\s*\t))|^\s*--- (PASS|FAIL|SKIP):"
)
_STATUS: Final = re.compile(rb"\" ([1-5]\d\d) (?:\d+|-)[^\n]*")
_RULE: Final = re.compile(
    rb"\[(-W[\w=+-]+)\]|\berror\[(E\d{4})\]|\berror (TS\d+):|^\S+?:\d+(?::\d+)?:? ([A-Z]{1,5}\d{2,5})\b|^([A-Z]{1,4}\d{3,5}) "
    rb"|^\S+?:\d+(?::\d+)?: .*\[([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\]\s*$"
)
_NUMBERED: Final = re.compile(rb"^((?:[A-Za-z]:)?[^:\n]{1,300}?)(?:\(\d+(?:,\d+)?\):|:\d+(?=[:\s]|$))", re.MULTILINE)
_PLAIN: Final = re.compile(rb"^([^\s:]{1,300}):(?!:)")
_BELOW: Final = re.compile(rb"\d+([:-])")
_BESIDE: Final = re.compile(rb"(.{1,300}?)-\d+-|--$")
_BETWEEN: Final = re.compile(rb"-\d+-")
_FILE: Final = re.compile(r"(?:[^/]*/)+[^/]*[^\d.:/][^/]*|[^/]*[A-Za-z_][^/]*\.[A-Za-z]\w{0,7}")

_WORD: Final = re.compile(rb"[A-Za-z]")


def _level(line: bytes) -> tuple[int, bytes] | None:
    """Returns the first level that a line names, at its beginning or after a date or a time, and the words before."""
    found = _LEVEL.search(line, 0, _FAR)
    depth = None if found is None else _depth(line[: found.start()])
    return None if found is None or depth is None else (depth, found[found.lastindex or 0])


@remember("levels", 1_024, 260)
def _depth(before: bytes) -> int | None:
    """Returns how many words precede a level, given all text before it; None: it is not a level."""
    return len(before.split()) if not _WORD.search(before) or _DATED.search(before) else None


def _may_be_file(name: bytes) -> bool:
    return _WORD.search(name) is not None and (b" " not in name or _is_file(name))


def _is_file(name: bytes) -> bool:
    return (b"." in name or b"/" in name) and _FILE.fullmatch(name.decode("utf-8", "replace")) is not None


class _Tally(Struct, frozen=True):
    label: str
    pattern: re.Pattern[bytes]
    """Its last group is what is counted, in one line."""
    share: float
    """Minimum share of the lines examined first that must have it."""
    hint: BlockPattern
    """Matches lines in every text in which the tally is started, at a tenth of the cost."""
    digits: bool = False
    """Whether lines that differ only in digits may count differently; otherwise lines are examined without digits."""
    most: int = 12
    """Things that are named."""


_LEVELS: Final = _Tally("Levels", _LEVEL, 0.25, BlockPattern(_NAMES.decode(), ignore_case=True))
_STATUSES: Final = _Tally("Statuses", _STATUS, 0.4, BlockPattern(r"\" [1-5]\d\d "), digits=True)
_FAILED: Final = _Tally(
    "Failed requests",
    re.compile(rb"\"([A-Z]+ [^ ?\"]*)[^\"\n]*\" 5\d\d (?:\d|-)"),
    0.0,
    BlockPattern(r"\" 5\d\d (?:\d|-)"),
    digits=True,
    most=5,
)
"""Methods and paths of requests whose status is a failure, their numbers aside: started with the statuses."""
_NUMBERS: Final = re.compile(rb"\d+")
_REQUEST: Final = 80
"""Maximum bytes of a method and a path that are told; a longer one is counted by its beginning."""
_BY_LINE: Final = _Tally(
    "Lines by file", _NUMBERED, 0.5, BlockPattern(r"^(?:[A-Za-z]:)?[^:]*[./][^:]*[:(]\d"), digits=True, most=24
)
_BY_FILE: Final = _Tally("Lines by file", _PLAIN, 1.0, BlockPattern(r"^[^\s:]+:"), digits=True, most=24)
_BY_HEADING: Final = _Tally("Lines by file", re.compile(rb"^\d+:"), 0.4, BlockPattern(r"^\d+:"), digits=True, most=24)
"""For files whose lines are below their name: numbered, and with a hyphen if they are only near a match."""
_OF_FILES: Final = (_BY_LINE, _BY_FILE, _BY_HEADING)
_TALLIES: Final = (
    _LEVELS,
    _Tally(
        "Outcomes", _OUTCOME, 0.25, BlockPattern(r"PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR|\.\.\. |^(?:not )?ok|--- ")
    ),
    _STATUSES,
    _Tally(
        "Findings by rule",
        _RULE,
        0.15,
        BlockPattern(r"\[-W|error(?:\[E| TS)\d|^\S+:\d\S* [A-Z]+\d\d|^[A-Z]+\d\d\d|^\S+:\d.*\]\s*$"),
        digits=True,
        most=8,
    ),
    *_OF_FILES,
)


@final
class Tallies:
    """Tallies a text, fed in blocks of whole lines, as a person would have seen them."""

    def __init__(self) -> None:
        self._counts: dict[_Tally, Counter[bytes]] | None = None
        self._deepest = 0
        """Maximum words before a level, by the first lines: any later word belongs to a message."""
        self._words = 0
        """Words of each line, without digits, that are examined, and one more after a name; 0: all. A level must be
        among them."""
        self._other = False
        """Whether some line names no file."""
        self._feeds = 0
        """Line feeds so far."""
        self._ended = True
        """Whether the last block ended with one; a very long line is in several blocks."""
        self._heading: bytes | None = None
        """The file whose lines are read; None: a name is next."""

    def feed(self, block: bytes, *, later: bool = False) -> None:
        """Counts the lines of the next block. Costs almost nothing for a text without tallies.

        Args:
            block: whole lines.
            later: whether `add` will provide these lines without digits.
        """
        if self._counts is None:
            self._counts = self._begun(block.split(b"\n"))
        self._feeds, self._ended = self._feeds + block.count(b"\n"), block.endswith(b"\n")
        lines = block.split(b"\n") if any(tally.digits and tally is not _BY_LINE for tally in self._counts) else []
        if lines and len(max(lines, key=len)) > 2 * _LONGEST:
            lines = [_ends(line) for line in lines]
        for tally, counts in self._counts.items():
            if tally.digits and len(counts) <= _MOST:
                self._count(tally, counts, block, lines)
        if not later and not all(tally.digits for tally in self._counts):
            self.add(block.translate(None, _DIGITS).split(b"\n"))

    def add(self, shapes: list[bytes] | Mapping[bytes, int]) -> None:
        """Counts lines of blocks that were fed, given all of them without digits, or how many there are of each."""
        begun = [each for each in (self._counts or {}).items() if not each[0].digits]
        heads: Iterable[tuple[bytes, int]] = ()
        if begun and self._words:
            heads = _heads(shapes, self._words).items()
        elif begun:
            long = {each: _ends(each.rstrip(b"\0")) for each in shapes if len(each) >= _LONGEST}
            heads = [(long.get(shape, shape), times) for shape, times in Counter(shapes).items()]
        for tally, counts in begun:
            for head, times in heads:
                found = self._found(tally, head)
                if found is not None:
                    counts[found] += times

    def _count(self, tally: _Tally, counts: Counter[bytes], block: bytes, lines: list[bytes]) -> None:
        if tally is _STATUSES:
            counts.update(cast("list[bytes]", _STATUS.findall(b"\n".join(lines))))
        elif tally is _FAILED:
            failed = [lines[row] for row in tally.hint.rows(b"\n".join(lines))]
            found = Counter(cast("list[bytes]", tally.pattern.findall(b"\n".join(failed))))
            for request, times in found.items():
                counts[_shortened(_NUMBERS.sub(b"#", request))] += times
        elif tally is _BY_LINE:
            names = Counter(cast("list[bytes]", _NUMBERED.findall(block)))
            counts.update({name: times for name, times in names.items() if _may_be_file(name)})
        elif tally is _BY_HEADING:
            self._count_below(counts, lines if lines[-1] else lines[:-1])
        elif tally is not _BY_FILE or not self._other:
            for line in lines:
                found = self._found(tally, line)
                if found is not None:
                    counts[found] += 1
                elif tally is _BY_FILE and line.strip():
                    self._other = True

    def _count_below(self, counts: Counter[bytes], lines: list[bytes]) -> None:
        """Counts numbered lines below the name of their file, which begins the text or is below an empty line."""
        for each in lines:
            line = each.rstrip(b"\r")
            numbered = _BELOW.match(line)
            if not line:
                self._heading = None
            elif self._heading is None:
                self._heading = line
                self._other = self._other or not _is_file(line) or (numbered is not None and numbered[1] == b":")
            elif numbered is None:
                self._other = self._other or line != b"--"
            elif numbered[1] == b":":
                counts[self._heading] += 1

    def _found(self, tally: _Tally, line: bytes) -> bytes | None:
        """Returns what is counted of a line; None if it has none."""
        if tally is _LEVELS:
            level = _level(line)
            return None if level is None or level[0] > self._deepest else level[1]
        found = tally.pattern.search(line)
        name = found[found.lastindex or 0] if found else None
        return None if name is None or (tally is _BY_FILE and not _is_file(name)) else name

    def facts(self) -> tuple[str, ...]:
        """Returns a line per tally that was started, in whole numbers of lines."""
        out: list[str] = []
        lines = self._feeds + (not self._ended)
        for tally, counts in (self._counts or {}).items():
            if tally is _BY_LINE:
                _drop_neighbours(counts)
            if not 0 < len(counts) <= _MOST:
                continue
            if tally in {_BY_FILE, _BY_HEADING} and self._other:
                continue  # some line names no file
            if tally.label == _BY_FILE.label and counts.total() == len(counts):
                continue  # every file is named once
            if tally is _BY_LINE and 2 * sum([n == 1 and b" " in name for name, n in counts.items()]) > counts.total():
                continue  # frames of a stack, for example: words before a number, hardly ever the same ones
            ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            named = [f"{name.decode('utf-8', 'replace')} {count}" for name, count in ordered]
            by_file = f"{counted(counts.total(), 'line')} in {counted(len(counts), 'file')}"
            label = by_file if tally in _OF_FILES else tally.label
            if tally is _LEVELS and counts.total() < _MOST_LINES * lines:
                label += f" in {counts.total()} of {lines} lines"
            out.append(f"{label}: {first_of(named, tally.most, separator=', ')}")
        return tuple(out)

    def _begun(self, lines: list[bytes]) -> dict[_Tally, Counter[bytes]]:
        """Returns the tallies that are started, given the first lines."""
        begun: dict[_Tally, Counter[bytes]] = {}
        filled = list(filter(bytes.strip, lines))
        looked = [_ends(line) for line in filled[:: max(1, -(-len(filled) // _LOOKED))]]
        if len(looked) < 5:  # noqa: PLR2004 - a tally of a handful of lines says less than the lines
            return begun
        exact = b"\n".join(looked)
        plain = exact.translate(None, _DIGITS)
        for tally in _TALLIES:
            block = exact if tally.digits else plain
            least = tally.share * len(looked)
            few = 1 if tally is _BY_LINE else min(least, _HINTED)  # lines around a match name no file
            if (tally is _BY_FILE and _BY_LINE in begun) or tally.hint.count(block, few) < few:
                continue
            if self._have(tally, block.split(b"\n"), least):
                begun[tally] = Counter()
                begun.update({_FAILED: Counter()} if tally is _STATUSES else {})
        if [tally for tally in begun if not tally.digits] == [_LEVELS]:
            self._words = self._deepest + 1
        return begun

    def _have(self, tally: _Tally, lines: list[bytes], least: float) -> bool:
        """Returns whether at least so many lines have what is counted, or are next to one that names a file."""
        if tally is _LEVELS:
            depths = sorted(level[0] for line in lines if (level := _level(line)) is not None)
            self._deepest = depths[len(depths) * 3 // 4] if depths else 0
            return len(depths) >= least
        if tally is _BY_HEADING and not any(map(_is_file, lines)):
            return False
        if tally is not _BY_LINE:
            without = (line for line in lines if self._found(tally, line) is None)
            return next(islice(without, int(len(lines) - least), None), None) is None
        names = [(found := _NUMBERED.match(line)) and found[1] for line in lines]
        files = sum([name is not None and _is_file(name) and _WORD.search(name) is not None for name in names])
        others = [line for line, name in zip(lines, names, strict=True) if not (name and _may_be_file(name))]
        return files > 0 and files + sum(_BESIDE.match(line) is not None for line in others) >= least


def _heads(shapes: list[bytes] | Mapping[bytes, int], words: int) -> dict[bytes, int]:
    """Returns how many lines begin with the same words, and after a name one more.

    In their order, lines that begin alike follow each other: only the first of them is split.
    """
    lines = sorted(shapes)
    heads: defaultdict[bytes, int] = defaultdict(int)
    at = 0
    while at < len(lines):
        line = lines[at]
        parts = line.split(None, words)
        rest = parts.pop() if len(parts) > words else b""
        if rest and parts[-1][-1] in _NAMING:
            value, *others = rest.split(None, 1)
            parts.append(value)
            rest = others[0] if others else b""
        begun = line[: len(line) - len(rest)] if rest else line
        end = at + 1
        if end < len(lines) and lines[end].startswith(begun):
            end = bisect_left(lines, begun[:-1] + bytes([begun[-1] + 1]), end) if rest else bisect_right(lines, line)
        times = end - at if isinstance(shapes, list) else sum(map(shapes.__getitem__, lines[at:end]))
        heads[b" ".join(parts).rstrip(b"\0")] += times
        at = end
    return heads


def tallied(text: bytes) -> tuple[str, ...]:
    """Returns the tallies of a whole text."""
    tallies = Tallies()
    tallies.feed(visible(text))
    return tallies.facts()


def _drop_neighbours(counts: Counter[bytes]) -> None:
    """Drops lines around a match that happen to contain a number between colons: `a.py-12-x:3:`."""
    for name in [each for each in counts if b"-" in each]:
        if any(name[: found.start()] in counts for found in _BETWEEN.finditer(name)):
            del counts[name]


def _shortened(request: bytes) -> bytes:
    return request if len(request) <= _REQUEST else request[: align(request, _REQUEST)] + "…".encode()


def _ends(line: bytes) -> bytes:
    return line if len(line) <= 2 * _LONGEST else line[:_LONGEST] + b" " + line[-_LONGEST:]
