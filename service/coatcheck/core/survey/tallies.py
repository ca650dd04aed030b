"""Tallies of an output's lines: test outcomes, statuses of requests, lines by file.

A tally is started only if enough of the first lines have what it counts, and then every line is examined.
"""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Final, cast, final

from msgspec import Struct

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
_LONGEST: Final = 200
"""Bytes at the beginning of a line, and at its end, that are examined."""
_DIGITS: Final = b"0123456789"

_OUTCOME: Final = re.compile(
    rb"^[^\s:]+::\S.*\s(PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR)(?: \(.*\))?(?: +\[ *%\])?\s*$"
    rb"|^\[gw\] \[ *%\] (PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR) \S+::"
    rb"|^\s*(?!E |\w*(?:Error|Exception|Failure): )\S.*\s\.\.\. (ok|FAIL|FAILED|ERROR|ignored|skipped)(?: ['\"].*)?\s*$"
    rb"|^(ok|not ok) (?:\s*$| (?!\s*\t))|^\s*--- (PASS|FAIL|SKIP):"
)
_STATUS: Final = re.compile(rb"\" ([1-5]\d\d) (?:\d+|-)[^\n]*")
_NUMBERED: Final = re.compile(rb"^((?:[A-Za-z]:)?[^:\n]{1,300}?)(?:\(\d+(?:,\d+)?\):|:\d+(?=[:\s]|$))", re.MULTILINE)
_PLAIN: Final = re.compile(rb"^([^\s:]{1,300}):(?!:)")
_BELOW: Final = re.compile(rb"\d+([:-])")
_BESIDE: Final = re.compile(rb"(.{1,300}?)-\d+-|--$")
_BETWEEN: Final = re.compile(rb"-\d+-")
_FILE: Final = re.compile(r"(?:[^/]*/)+[^/]*[^\d.:/][^/]*|[^/]*[A-Za-z_][^/]*\.[A-Za-z]\w{0,7}")

_WORD: Final = re.compile(rb"[A-Za-z]")


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
    _Tally(
        "Outcomes", _OUTCOME, 0.25, BlockPattern(r"PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR|\.\.\. |^(?:not )?ok|--- ")
    ),
    _STATUSES,
    *_OF_FILES,
)


@final
class Tallies:
    """Tallies a text, fed in blocks of whole lines, as a person would have seen them."""

    def __init__(self) -> None:
        self._counts: dict[_Tally, Counter[bytes]] | None = None
        self._other = False
        """Whether some line names no file."""
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
        if not begun:
            return
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
        found = tally.pattern.search(line)
        name = found[found.lastindex or 0] if found else None
        return None if name is None or (tally is _BY_FILE and not _is_file(name)) else name

    def facts(self) -> tuple[str, ...]:
        """Returns a line per tally that was started, in whole numbers of lines."""
        out: list[str] = []
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
        return begun

    def _have(self, tally: _Tally, lines: list[bytes], least: float) -> bool:
        """Returns whether at least so many lines have what is counted, or are next to one that names a file."""
        if tally is _BY_HEADING and not any(map(_is_file, lines)):
            return False
        if tally is not _BY_LINE:
            without = (line for line in lines if self._found(tally, line) is None)
            return next(islice(without, int(len(lines) - least), None), None) is None
        names = [(found := _NUMBERED.match(line)) and found[1] for line in lines]
        files = sum([name is not None and _is_file(name) and _WORD.search(name) is not None for name in names])
        others = [line for line, name in zip(lines, names, strict=True) if not (name and _may_be_file(name))]
        return files > 0 and files + sum(_BESIDE.match(line) is not None for line in others) >= least


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
