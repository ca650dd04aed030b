"""Lines with a typed field, like the file that they are about, and lines with words in columns."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, final

from msgspec import Struct

from coatcheck.core.records.model import LINE, LONGEST, Column, RecordList
from coatcheck.core.records.statistics import FieldStatistic, examine
from coatcheck.core.records.tell import tell_counts
from coatcheck.core.text.terminal import visible

_LOOKED: Final = 24
"""Lines, evenly spread, that decide which fields are looked for."""
_LEAST: Final = 5
_LONGEST: Final = 400
"""Bytes of a line that are examined."""
_FILE: Final = rb"(?:[A-Za-z]:)?(?:[\w\x80-\xff.@+~ -]*[/\\])+[\w\x80-\xff.@+~ -]+|[\w\x80-\xff.@+~-]+\.[A-Za-z]\w{0,7}"


class _LineField(Struct, frozen=True):
    """A typed field."""

    name: str
    pattern: re.Pattern[bytes]
    """Its group is the value."""
    share: float
    """Minimum share of the lines that have it."""


_FIELDS: Final = (
    _LineField(
        "outcome",
        re.compile(
            rb"(?:^[^\s:]+::\S.*?\s+(?=[A-Z]+(?: \(.*\))?(?: +\[ *\d+%\])?\s*$)|^\[gw\d+\] \[ *\d+%\] (?=[A-Z]+ \S+::)"
            rb"|^\s*--- (?=[A-Z]+:)|^(?=(?:not )?ok \d)|^\s*(?!E |\w*(?:Error|Exception|Failure): )\S.*\s\.\.\. "
            rb"(?=\w+(?:[ ,].*)?\s*$))"
            rb"(PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR|PASS|FAIL|SKIP|not ok|ok|ignored|skipped)\b"
        ),
        0.25,
    ),
    _LineField("status", re.compile(rb"\" ([1-5]\d\d) (?:\d+|-)"), 0.4),
    _LineField("file", re.compile(rb"^(" + _FILE + rb")(?:\(\d+(?:,\d+)?\):|:\d+[:\s])"), 0.5),
)
_MANY: Final = 20
"""Minimum lines, and lines per different word, where words are counted."""
_WORDS: Final = 6
"""Columns of words that are examined."""
_FEW: Final = 8
"""Maximum different words that are counted: lines of several sorts have more."""
_USUAL: Final = 0.95
"""Maximum share of the lines with one word, of which nothing needs to be counted otherwise."""


@final
class LineFieldCounter:
    """Counts the typed fields of lines that stream in: those that many of the first lines have."""

    def __init__(self, first: bytes) -> None:
        """Takes the first block, as a person would have seen it."""
        lines = [line[:_LONGEST] for line in first.split(b"\n") if line.strip()]
        sample = lines[:: -(-len(lines) // _LOOKED)] if len(lines) >= _LEAST else []
        self._counts: dict[_LineField, Counter[bytes]] = {
            each: Counter()
            for each in _FIELDS
            if sample and sum(_value(each, line) is not None for line in sample) >= each.share * len(sample)
        }

    def feed(self, block: bytes) -> None:
        """Counts the lines of a block."""
        lines = block.split(b"\n") if self._counts else []
        for field, counts in self._counts.items():
            counts.update(filter(None, (_value(field, line) for line in lines)))

    def records(self) -> Iterator[tuple[RecordList, dict[str, FieldStatistic]]]:
        """Yields the lines that have each field as records, and the statistic of that field."""
        for field, counts in self._counts.items():
            values: Counter[object] = Counter(
                {value.decode("utf-8", "replace"): times for value, times in counts.items()}
            )
            total = values.total()
            if total:
                yield RecordList(LINE, total, {field.name: ()}), {field.name: FieldStatistic(total, values)}


def _value(field: _LineField, line: bytes) -> bytes | None:
    found = field.pattern.search(line, 0, _LONGEST)
    return None if found is None else found[1]


def line_facts(fields: LineFieldCounter) -> list[str]:
    """Returns the counts of lines in words."""
    return [line for records, statistics in fields.records() for line in tell_counts(records, statistics)]


def facts_of_lines(text: bytes) -> list[str]:
    """Returns the counts of the typed fields of a whole text's lines."""
    seen = visible(text)
    fields = LineFieldCounter(seen)
    fields.feed(seen)
    return line_facts(fields)


def facts_of_words(text: bytes) -> list[str]:
    """Returns how often words occur at the beginning and the end of lines, where all lines have one of a few."""
    rows = [line.split(None, _WORDS) for line in text.split(b"\n") if line.strip()]
    if len(rows) < _MANY:
        return []
    columns: dict[str, Column] = {}
    for at in range(_WORDS):
        counts = Counter(row[at] for row in rows[:: max(1, len(rows) // _LOOKED)] if len(row) > at)
        if 2 * len(counts) < counts.total():
            columns[f"word {at + 1}"] = [_word(row[at]) if len(row) > at else None for row in rows]
    columns["last word"] = [_word(row[-1].split()[-1]) for row in rows]
    told = {name: examine(column) for name, column in columns.items()}
    few = {name: each for name, each in told.items() if _is_few(each, len(rows))}
    return tell_counts(RecordList(LINE, len(rows), {name: columns[name] for name in few}), few) if few else []


def _is_few(statistic: FieldStatistic, size: int) -> bool:
    counts = statistic.counts
    if not counts or statistic.is_number or max(counts.values()) > _USUAL * size:
        return False
    return _MANY * len(counts) <= size == statistic.present and len(counts) <= _FEW


def _word(word: bytes) -> str:
    return word[:LONGEST].decode("utf-8", "replace")
