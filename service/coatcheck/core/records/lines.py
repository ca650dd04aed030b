"""Counts what lines have in common: typed fields such as the file of a message, words in columns, `key=value` pairs."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, final

from msgspec import Struct

from coatcheck.core.records.counts import show_value, tell_counts
from coatcheck.core.records.model import LINE, LONGEST, Column, RecordList
from coatcheck.core.records.statistics import FieldStatistic, examine
from coatcheck.core.text.count import format_count
from coatcheck.core.text.lexicon import BENIGN, SPEAKS, SURE, classify, speaking
from coatcheck.core.text.visible_text import visible

_SAMPLE_LINES: Final = 24
"""Number of lines, evenly spread, that are examined to choose the fields to count."""
_MIN_LINES: Final = 5
"""Minimum lines of a text in which fields are counted. Counting fewer lines tells no more than reading them."""
_LINE_BYTES: Final = 400
"""Maximum bytes of a line that are examined."""
_FILE: Final = rb"(?:[A-Za-z]:)?(?:[\w\x80-\xff.@+~ -]*[/\\])+[\w\x80-\xff.@+~ -]+|[\w\x80-\xff.@+~-]+\.[A-Za-z]\w{0,7}"


class _LineField(Struct, frozen=True):
    """A typed field of lines."""

    name: str
    pattern: re.Pattern[bytes]
    """Matches a line with the field; the group is the value."""
    share: float
    """Minimum share of the sampled lines that have the field."""


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
_PAIR: Final = re.compile(
    rb"(?<![\w.=/?&%-])([A-Za-z_][\w.-]{0,40})"
    rb'(?:=(?=[^=\s])("[^"]*"|[^\s,;()\[\]{}"]+)|: ([-+]?\d+(?:[.,]\d+)*[%a-zA-Z]{0,3})(?=[\s,;]|$))'
)
"""Matches `key=value`, unless it is a part of an address or an option, and `Key: number`."""
_BEGINS_VALUE: Final = re.compile(rb"=[^=\s]|: [-+]?\d")
"""Matches inside every pair, and is much faster than `_PAIR`."""
_BEFORE: Final = " "
"""Name of the column with the text before the first pair. No key has this name."""
_RARE: Final = 0.1
"""Minimum share of the lines that must have the most frequent key."""
_PAIRS: Final = 2
"""Minimum number of keys that most of these lines have: a single key may be an option of a command, or a part of an
address."""
_MANY: Final = 20
"""Minimum number of lines in which words or pairs are counted, and minimum number of lines per different word."""
_WORDS: Final = 6
"""Maximum columns of words that are examined."""
_OFTEN: Final = 0.1
"""Minimum share of the lines that must end with a word for it to be counted although many other words occur there."""
_NAMING: Final = re.compile(r"[A-Za-z][\w./:-]+\w")
"""Matches words that say something by themselves."""
_SHORT: Final = 2
"""Maximum lines that have no word in a column in which all others have one: a heading and a total."""
_NUMBER: Final = re.compile(rb"[-+]?\d[\d.,]*[%a-zA-Z]{0,3}")
_MAX_WORDS: Final = 8
"""Maximum different words that are counted: lines of several sorts have more."""
_MAX_SHARE: Final = 0.95
"""Maximum share of the lines that have the same word; beyond it, a count tells nothing."""


@final
class LineFieldCounter:
    """Counts the typed fields of lines that stream in. Only fields that many of the first lines have are counted."""

    def __init__(self, first: bytes) -> None:
        """Chooses the fields by the first block, which must be visible text. The block is not counted yet."""
        lines = [line[:_LINE_BYTES] for line in first.split(b"\n") if line.strip()]
        sample = lines[:: -(-len(lines) // _SAMPLE_LINES)] if len(lines) >= _MIN_LINES else []
        self._counts: dict[_LineField, Counter[bytes]] = {
            each: Counter()
            for each in _FIELDS
            if sample and sum(_value(each, line) is not None for line in sample) >= each.share * len(sample)
        }

    def feed(self, block: bytes) -> None:
        """Counts the fields in the lines of a block."""
        lines = block.split(b"\n") if self._counts else []
        for field, counts in self._counts.items():
            counts.update(filter(None, (_value(field, line) for line in lines)))

    def records(self) -> Iterator[tuple[RecordList, dict[str, FieldStatistic]]]:
        """Yields, for each field, the lines that have it, as records, and the field's statistic."""
        for field, counts in self._counts.items():
            values: Counter[object] = Counter(
                {value.decode("utf-8", "replace"): times for value, times in counts.items()}
            )
            total = values.total()
            if total:
                yield RecordList(LINE, total, {field.name: ()}), {field.name: FieldStatistic(total, values)}


def _value(field: _LineField, line: bytes) -> bytes | None:
    match = field.pattern.search(line, 0, _LINE_BYTES)
    return None if match is None else match[1]


def line_facts(fields: LineFieldCounter) -> list[str]:
    """Returns the counts of fields in words."""
    return [line for records, statistics in fields.records() for line in tell_counts(records, statistics)]


def facts_of_lines(text: bytes) -> list[str]:
    """Returns the counts of the typed fields in the lines of a whole text, in words."""
    visible_text = visible(text)
    fields = LineFieldCounter(visible_text)
    fields.feed(visible_text)
    return line_facts(fields)


def facts_of_words(text: bytes) -> list[str]:
    """Returns how often words occur in those columns of lines that have few different words, and the ranges of numbers.

    The last word of a line names the line if all lines end differently, as with paths.
    """
    split = (line.split(None, _WORDS) for line in text.split(b"\n"))
    numbered = [(number, row) for number, row in enumerate(split, 1) if row and not _is_total(row)]
    rows = [row for _, row in numbered]
    if len(rows) < _MANY:
        return []
    # A sample decides which columns are counted in all rows: those whose words recur, or are all numbers.
    columns: dict[str, Column] = {}
    for at in range(_WORDS):
        sample = [row[at] for row in rows[:: max(1, len(rows) // _SAMPLE_LINES)] if len(row) > at]
        if 2 * len({*sample}) < len(sample) or all(map(_NUMBER.fullmatch, sample)):
            columns[f"word {at + 1}"] = [_word(row[at]) if len(row) > at else None for row in rows]
    last = [_word(row[-1].split()[-1]) for row in rows]
    columns["last word"] = last
    statistics = {name: examine(column) for name, column in columns.items()}
    ranges = (name for name, each in statistics.items() if name != "last word" and _is_range(each, len(rows)))
    names = {name for name, each in statistics.items() if _is_few(each, len(rows))}.union(ranges)
    title = None if statistics["last word"].is_number or len({*last}) < len(last) else "last word"
    records = RecordList(LINE, len(rows), columns, lambda number: f"line {numbered[number][0]}")
    facts = tell_counts(records, {name: statistics[name] for name in columns if name in names}, title) if names else []
    often = "" if "last word" in names else _show_often(last)
    if not often or _states_failure(text):
        return facts
    return [f"{facts[0]}; {often}" if facts else f"{format_count(len(rows), 'line')}: {often}"]


def _show_often(words: list[str]) -> str:
    """Returns the words with which many lines end, and how many others there are; empty if there is nothing to tell."""
    counts = Counter(words)
    often = [
        (word, count)
        for word, count in counts.most_common(_MAX_WORDS)
        if count >= max(_MANY, _OFTEN * len(words)) and _NAMING.fullmatch(word)
    ]
    if not often or len(often) == len(counts) or sum(count for _, count in often) > _MAX_SHARE * len(words):
        return ""
    items = [f"{show_value(word, RecordList(LINE, 0))} {count}" for word, count in often]
    return f"last word {', '.join(items)}, … {len(counts) - len(often)} more values"


def facts_of_pairs(text: bytes) -> list[str]:
    """Returns the values and ranges of `key=value` and of `Key: number` in the lines that have the most frequent key.

    The text before the first pair names a line if it is different in every line.
    """
    rows: list[tuple[int, bytes, dict[str, object]]] = []
    lines = text.split(b"\n")
    if max(map(len, lines)) > LONGEST:  # a pair could be cut in two
        return []
    for number, line in enumerate(lines, 1):
        matches = list(_PAIR.finditer(line)) if _BEGINS_VALUE.search(line) else []
        if matches:
            pairs: dict[str, object] = {}
            for match in matches:
                pairs.setdefault(match[1].decode(), _word((match[2] or match[3]).strip(b'"')))
            rows.append((number, line[: matches[0].start()], pairs))
    times = Counter(key for _, _, pairs in rows for key in pairs)
    first, count = max(times.items(), key=lambda item: item[1], default=("", 0))
    rows = [each for each in rows if first in each[2]]
    usual = Counter(key for _, _, pairs in rows for key in pairs)
    filled = sum(not line.isspace() for line in lines if line)
    if count < max(_MANY, filled * _RARE) or sum(4 * each >= 3 * count for each in usual.values()) < _PAIRS:
        return []
    if _states_failure(text):  # lines that state a failure are worth more
        return []
    columns: dict[str, Column] = {
        key: [pairs.get(key) for _, _, pairs in rows] for key, times_of in usual.items() if 4 * times_of > count
    }
    before = [_word(line.strip()) for _, line, _ in rows]
    records = RecordList(LINE, len(rows), {**columns, _BEFORE: before}, lambda number: f"line {rows[number][0]}")
    title = _BEFORE if all(before) and len({*before}) == len(before) else None
    facts = tell_counts(records, {key: examine(column) for key, column in columns.items()}, title)
    return [line.replace(": ", f" with {first}: ", 1) for line in facts]


def _states_failure(text: bytes) -> bool:
    lines = text.split(b"\n")
    return any(classify(lines[row]) & (SURE | BENIGN) == SURE for row in speaking(text, SPEAKS))


def _is_few(statistic: FieldStatistic, size: int) -> bool:
    counts = statistic.counts
    if not counts or max(counts.values()) > _MAX_SHARE * size:
        return False
    return _MANY * len(counts) <= size <= statistic.present + _SHORT and len(counts) <= _MAX_WORDS


def _is_range(statistic: FieldStatistic, size: int) -> bool:
    several = statistic.counts is None or len(statistic.counts) >= _MANY
    return statistic.is_number and several and size <= statistic.present + _SHORT


def _is_total(row: list[bytes]) -> bool:
    """Returns whether a line has the sum of others, as `wc` and `ls` print it."""
    return len(row) == 2 and b"total" in row  # noqa: PLR2004 - a word and a number


def _word(word: bytes) -> str:
    return word[:LONGEST].decode("utf-8", "replace")
