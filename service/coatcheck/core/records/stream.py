"""Counts the fields of records that stream in: JSON lines, elements of an array, or rows. Reads small documents whole.

The first records decide which fields are counted. Of all records, only these fields are read. Memory is bounded for any
content, and the facts are true of all records. There are no facts about a text if more than a few of its lines are not
records.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final, final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.jsonpath.query import step
from coatcheck.core.records.counts import documents_in, is_worth_counting, tell_counts
from coatcheck.core.records.describe import RecordFacts, tell, tell_first_failed
from coatcheck.core.records.examine import largest_path, top_values
from coatcheck.core.records.model import FIELDS, Column, RecordList, failing_among, find_verdict
from coatcheck.core.records.objects import Keys, Members, columns_of, fields_of, lists_in, values_at
from coatcheck.core.records.statistics import Extreme, FieldStatistic, count_values, examine, make_sort_keys
from coatcheck.core.records.tables import begins_with_values, rows_of
from coatcheck.core.records.yaml import is_xml, is_yaml
from coatcheck.core.structure import JSON_FAULTS, read_table
from coatcheck.core.text.count import format_count

_FIRST_RECORDS: Final = 1_000
"""Records at the beginning that decide which fields are counted."""
_MIN_RECORDS: Final = 8
"""Minimum records of a text about which there are facts."""
_OTHERS: Final = 10
"""Minimum records for each line that is not a record."""
_CARRY: Final = 1024 * 1024
"""Maximum bytes of a record; after a longer one, nothing is counted any more."""
_DOCUMENT: Final = 2 * 1024 * 1024
"""Maximum bytes of a document that is read as a whole: that takes 0.1 s for JSON, 0.8 s for XML of tags alone."""
_START: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(\[\s*)?\{")
_ELEMENT: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*(\[)\s*\{\s*("[^"\\]{1,200}")')
_NEXT: Final = rb"\}\s*,\s*\{\s*%b"
"""Pattern of the text between two elements of an array that begin with the same name. No JSON string can contain it."""
_LINES: Final = re.compile(rb"[^\n]*\}\s*\n\s*\{")
"""Matches a text whose first line ends with an object, and whose next line begins with one."""
_COUNTED: Final = 16
"""Fields that are counted."""
_MAX_FAILED: Final = 10
"""Failed records that are kept."""
_DEEP: Final = 2
"""Maximum length of the path to a field that is counted, in keys."""
_NOTHING: Final = (None, "")
_elements: Final = msgspec.json.Decoder(list[Members])
_lines: Final = msgspec.json.Decoder(Members)


_End = tuple[Any, object]
"""A value as a sort key, and as the payload has it."""


class _Total(Struct):
    """The statistic of a field so far."""

    present: int = 0
    """Number of values so far."""
    counts: Counter[object] | None = msgspec.field(default_factory=Counter[object])
    """How often each value occurs; None: there are too many different values."""
    form: tuple[str, str] | None = None
    """The form that all values share, and in which they can be compared; None: there are no values yet."""
    ends: "tuple[_End, _End] | None" = None
    """The least and the greatest value, each as a sort key and as the payload has it; None: there are none yet."""
    ranged: bool = True
    """Whether all values so far can be compared with one another."""

    def add(self, values: Sequence[object]) -> None:
        """Adds a field's values in some records. None and an empty text do not count as values."""
        present_values = values
        if None in values or "" in values:
            present_values = [each for each in values if each not in _NOTHING]
        self.present += len(present_values)
        if self.counts is not None:
            self.counts = count_values(present_values, self.counts)
        if not present_values or not self.ranged:
            return
        form, keys = make_sort_keys(present_values)
        self.ranged = form is not None and self.form in {None, form}
        self.form = form
        if self.ranged:
            low, high = min(keys), max(keys)  # pyright: ignore[reportArgumentType]
            extremes = (low, present_values[keys.index(low)]), (high, present_values[keys.index(high)])
            ends = self.ends or extremes
            self.ends = min(ends[0], extremes[0], key=itemgetter(0)), max(ends[1], extremes[1], key=itemgetter(0))

    def statistic(self) -> FieldStatistic:
        """Returns the statistic of the field, without least and greatest value if the values cannot be compared."""
        if not self.ranged or self.ends is None or self.form is None:
            return FieldStatistic(self.present, self.counts)
        ends = [Extreme(value, -1, alone=False) for _, value in self.ends]
        return FieldStatistic(self.present, self.counts, *ends, is_number=self.form[0] == "number")


class _Fields:
    """The fields that are counted, with their statistics so far."""

    def __init__(
        self,
        records: RecordList,
        read_fields: Callable[[list[Any]], dict[str, Column]],
        paths: Mapping[str, Keys] | None = None,
    ) -> None:
        """Chooses the fields that are worth counting.

        `records` are the first records, `read_fields` returns all fields of records, and `paths` has the keys that lead
        to each field.
        """
        self.paths = paths or {}
        self._read_fields = read_fields
        statistics = {name: examine(column) for name, column in records.columns.items()}
        names = [name for name, each in statistics.items() if is_worth_counting(name, records, each)]
        self.totals = {name: _Total() for name in names[:_COUNTED]}
        self._records = replace(records, size=0, columns=dict.fromkeys(self.totals, ()))
        self._failed: dict[str, dict[int, dict[str, Column]]] = {name: {} for name in self.totals}
        """For each counted field: the first records in which this field states a failure, by number, each with all of
        its fields."""

    @property
    def size(self) -> int:
        """Number of records so far."""
        return self._records.size

    def add(self, records: Sequence[object], columns: Mapping[str, Column]) -> None:
        """Adds records; a field that is not among these columns is missing in all of them."""
        first = self.size
        self._records.size += len(records)
        for name, total in self.totals.items():
            column = columns.get(name, ())
            total.add(column)
            failed = self._failed[name]
            if len(failed) < _MAX_FAILED and (bad := failing_among(self._records.last_step(name), total.counts or ())):
                numbers = (number for number, value in enumerate(column) if value in bad)
                for number in islice(numbers, _MAX_FAILED - len(failed)):
                    failed[first + number] = self._read_fields([records[number]])

    def facts(self, others: int = 0) -> list[str]:
        """Returns in words which records failed, and the counts, with the number of other lines."""
        statistics = {name: each.statistic() for name, each in self.totals.items()}
        counts = tell_counts(self._records, statistics)
        counts = [f"{line}; {format_count(others, 'other line')}" if others else line for line in counts]
        verdict = find_verdict(self._records, statistics)
        if verdict is None:
            return counts
        name, bad = verdict
        failed = self._failed[name]
        locations = [f"record {number + 1}" if others else self._records.locate(number) for number in failed]
        names = dict.fromkeys(field for fields in failed.values() for field in fields)
        columns = {field: [fields.get(field, (None,))[0] for fields in failed.values()] for field in names}
        failed_records = replace(self._records, size=len(failed), columns=columns, locate=locations.__getitem__)
        return [*tell_first_failed(failed_records, sum(bad.values()), self.size), *counts]


@final
class JsonRecords:
    """Counts the fields of JSON lines, or of the elements of an array."""

    def __init__(self, *, array: bool) -> None:
        """`array`: the records are elements of an array; otherwise, each line is a record."""
        self._between = None if array else b"\n"
        """The text between two records; None: it is not known yet."""
        self._array = array
        self._carry = b""
        self._fields: _Fields | None = None
        self._others = 0
        self._known = True
        """Whether fields are counted, or can still be chosen. Once it is False, further bytes are ignored."""

    def feed(self, data: bytes) -> None:
        """Counts the values of the complete records in the next bytes. Costs nothing once counting was given up."""
        if not self._known:
            return
        if self._between is None:
            data, self._carry = self._carry + data, b""
            element = _ELEMENT.match(data)
            second = None if element is None else re.compile(_NEXT % re.escape(element[2])).search(data, element.end())
            if element is not None and second is not None:
                self._between, data = second[0], data[element.end(1) :]
        end = -1 if self._between is None else data.rfind(self._between)
        if end >= 0:
            end += 1  # a line feed, or a bracket that ends a record
            self._count(self._carry + data[:end])
            data, self._carry = data[end:].lstrip()[self._array :], b""
        self._carry += data
        self._known = self._known and len(self._carry) <= _CARRY

    def facts(self) -> list[str]:
        """Returns the counts, once all bytes have been fed."""
        rest = self._carry.strip()
        if self._array and not rest.endswith(b"]"):
            return []
        if rest and self._known:
            self._count(rest[: len(rest) - self._array])
        fields = self._fields
        if not self._known or fields is None or fields.size < max(_MIN_RECORDS, self._others * _OTHERS):
            return []
        return fields.facts(self._others)

    def _count(self, text: bytes) -> None:
        """Counts the records in a text, which are its lines, or elements with commas between them."""
        records = list(_records(text, array=self._array))
        valid_records = [each for each in records if each is not None]
        self._others += len(records) - len(valid_records)
        if self._fields is None and valid_records:
            first = valid_records[:_FIRST_RECORDS]
            keys = [each for each, _ in islice(fields_of(first), FIELDS) if len(each) <= _DEEP and 0 not in each]
            columns = {"".join(step(str(key)) for key in each): values_at(first, each) for each in keys}
            self._fields = _Fields(
                RecordList("$[*]", len(first), columns, lambda number: f"$[{number}]", steps=True),
                columns_of,
                dict(zip(columns, keys, strict=True)),
            )
        if self._fields is not None:
            paths, names = self._fields.paths, self._fields.totals
            self._fields.add(valid_records, {name: values_at(valid_records, paths[name]) for name in names})
        self._known = self._fields is not None and bool(self._fields.totals) and not (self._array and self._others)


def _records(text: bytes, *, array: bool) -> Iterator[Members | None]:
    """Yields the records of a text; None for each line that is no record, or once if any element is none."""
    try:
        yield from _elements.decode(b"[%b]" % text) if array else _lines.decode_lines(text)
    except JSON_FAULTS:
        for part in [] if array else [line for line in text.split(b"\n") if line.strip()]:
            try:
                yield _lines.decode(part)
            except JSON_FAULTS:
                yield None
        if array:
            yield None


@final
class RowRecords:
    """Counts the columns of delimited text."""

    def __init__(self, delimiter: str, names: Sequence[str], begin: int) -> None:
        """Begins before the first byte of the text.

        Args:
            delimiter: the character between two cells.
            names: the names of the columns.
            begin: number of lines above the header.
        """
        self._delimiter = delimiter
        self._begin = begin
        self._names = names
        self._carry: bytes = b""
        self._fields: _Fields | None = None
        self._columns: dict[str, int] = {}
        self._known = True

    def feed(self, data: bytes) -> None:
        """Counts the cells of the complete rows in the next bytes."""
        if not self._known:
            return
        data = self._carry + data
        end = data.rfind(b"\n") + 1
        if data.count(b'"', 0, end) % 2:  # a quoted cell is not complete yet
            end = 0
        self._carry = data[end:]
        self._known = len(self._carry) <= _CARRY
        if end and self._known:
            self._count(data[:end].decode("utf-8-sig" if self._fields is None else "utf-8", "replace"))

    def facts(self) -> list[str]:
        """Returns the counts, once all bytes have been fed."""
        if self._carry and self._known:
            self._count(self._carry.decode("utf-8", "replace"))
        fields = self._fields
        return fields.facts() if self._known and fields is not None and fields.size >= _MIN_RECORDS else []

    def _read(self, rows: list[list[str]]) -> dict[str, Column]:
        return rows_of(self._names, rows, range(len(rows))).columns

    def _count(self, text: str) -> None:
        try:
            lines = text.split("\n")[
                self._begin if self._fields is None else 0 :
            ]  # only LF ends a line: other line separators are parts of cells
            if '"' in text or "\r" in text:
                reader = csv.reader([f"{line}\n" for line in lines], delimiter=self._delimiter, strict=True)
                rows = [row for row in reader if row]
            else:
                rows = [line.split(self._delimiter) for line in lines if line]
        except csv.Error:
            self._known = False
            return
        if self._fields is None:
            headless = len(rows) > 1 and begins_with_values(rows)
            rows = rows if headless else rows[1:]
            self._names = [""] * len(self._names) if headless else self._names
            first = rows_of(self._names, rows[:_FIRST_RECORDS], range(len(rows)))
            first.locate = lambda number: f"row {number + 1}"
            self._fields = _Fields(first, self._read)
            self._columns = {name: nth for nth, name in enumerate(first.columns) if name in self._fields.totals}
        width = max(self._columns.values(), default=0)
        if rows and min(map(len, rows)) <= width:
            rows = [row if len(row) > width else [*row, *[""] * (width + 1 - len(row))] for row in rows]
        self._fields.add(rows, {name: list(map(itemgetter(at), rows)) for name, at in self._columns.items()})


@final
class RecordStream:
    """Reads a document of at most _DOCUMENT bytes when it is complete; counts the fields of a larger document."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._counter: JsonRecords | RowRecords | None = None

    def feed(self, data: bytes) -> None:
        """Processes the next bytes. Costs nearly nothing for a text without records."""
        self._size += len(data)
        if self._counter is not None:
            self._counter.feed(data)
        elif self._size == len(data) or self._parts:
            self._parts.append(data)
            if self._size > _DOCUMENT or not (len(self._parts) > 1 or may_have_records(data)):
                parts, self._parts = self._parts, []
                self._counter = counter_of(parts[0])
                if self._counter is not None:
                    self._counter.feed(b"".join(parts))

    def collect_facts(self) -> RecordFacts:
        """Returns facts about the records, once all bytes have been fed; empty facts for a text without records."""
        if self._counter is not None:
            return RecordFacts(self._counter.facts())
        text = b"".join(self._parts)
        self._parts = []
        return read_records(text) if text else RecordFacts()


def read_records(text: bytes) -> RecordFacts:
    """Returns facts about the records of a whole text."""
    if _START.match(text):
        for form in (text, b"[%b]" % b",".join(filter(bytes.strip, text.split(b"\n")))):
            try:
                value = msgspec.json.decode(form)
            except JSON_FAULTS:
                continue
            records = tell(lists_in(value))
            records.facts[:0] = filter(None, [top_values(value)])
            records.path = records.path or largest_path(value)
            return records
    counter = counter_of(text)
    if counter is None:
        return tell(documents_in(text))
    counter.feed(text)
    return RecordFacts(counter.facts())


def may_have_records(head: bytes) -> bool:
    """Returns whether a text with this beginning may have records."""
    return _START.match(head) is not None or is_xml(head) or is_yaml(head) or counter_of(head) is not None


def counter_of(head: bytes) -> JsonRecords | RowRecords | None:
    """Returns a counter for the records of a large text with this beginning; None if it does not begin with records."""
    match = _START.match(head)
    if match is not None:
        return JsonRecords(array=match[1] is not None) if match[1] is not None or _LINES.match(head) else None
    table = read_table(head)
    return RowRecords(table.delimiter, table.rows[0], table.begin) if table is not None and table.plain else None
