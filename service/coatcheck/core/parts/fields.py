"""Separates the fields of lines from their messages: times, levels, containers, jobs, hosts, members, columns.

The fields of a text are decided once, by the types of its columns and never by a constant string alone, so that code,
Markdown, diffs, configuration and tables of data stay untouched. Fields are left out only when a text is rendered: each
line stays a line, and positions remain those of the payload.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Final, final

import msgspec

from coatcheck.core.artifact import LineColumn, LineFields
from coatcheck.core.structure import JSON_FAULTS, has_unique_names
from coatcheck.core.text.visible_text import ESCAPES, Hidden
from coatcheck_client.contract.inert import one_line

_HEAD: Final = 128 * 1024
"""Bytes at the beginning of a text from which its fields are decided."""
_SAMPLE_LINES: Final = 64
"""Lines from which the fields are decided, evenly spread over the beginning. Of a short text, all lines are used; more
than this would cost noticeable time, because each line is matched against several patterns."""
_FIRST_LINES: Final = 16
"""Lines on which the types of a column are tried first; only the best type is then tried on all sampled lines."""
_MIN_LINES: Final = 8
"""Minimum sampled lines: a text with fewer is taken to have no fields."""
_SHARED: Final = 0.5
"""Minimum share of the lines that have the first column. The other lines may come from programs that the logging
program called."""
_FOLLOWING: Final = 0.8
"""Minimum share of the lines with all earlier columns that must have the next column too."""
_MAX_COLUMNS: Final = 6
"""Maximum columns in front of a message; everything to the right of them is the message."""
_ISO: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d| UTC)?"
_MARK: Final = "\ufeff"
_TIME: Final = (
    rf"(?:{_MARK})?(?:\[{_ISO}\]|{_ISO}|\[?\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?\]?|\[ *\d{{1,7}}\.\d{{3,9}}\]"
    rf"|[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})?)(?:,? |\t|$)"
)
_LABEL: Final = "label"
"""One or two words in front of a time. They are shown if a few different labels occur, and left out if only one
occurs. Many different labels are data, not a column."""
_PROCESS: Final = "host and process"
_STAGE: Final = "word in brackets"
_TYPES: Final = (
    (_LABEL, rf"(?!{_TIME})\S{{1,60}} +(?:(?!{_TIME})[^\s:=]\S{{0,60}} +)?(?={_TIME})"),
    ("job and step", rf"(?:[^\t\n]{{1,80}}\t){{1,2}}{_TIME}"),
    ("time", _TIME),
    (_PROCESS, r"(?![A-Z]{3,8} )[\w.-]{1,80} [A-Za-z_/][\w./@-]{0,59}(?:\[\d{1,9}\])?: "),
    (_STAGE, r"\[(?!(?i:trace|debug|info|notice|warn|err|fatal|crit|severe|panic|alert))[\w .:/-]{1,40}\] "),
    ("stream", r"(?:stdout|stderr) [FP](?: |$)"),
    ("container", r"[\w.-]{1,60} +\| ?"),
    ("build step and seconds", r"#\d{1,4} \d{1,6}\.\d{1,3} "),
    ("quotation mark", r"(?!>>>)> ?"),
)
"""Columns by type, with the pattern of each. A level in front of a message is no column and stays visible, because an
unusual level distinguishes its line."""
_ANY_TYPE: Final = re.compile("|".join(f"(?:{pattern})" for _, pattern in _TYPES))
_TIMED: Final = frozenset({"time", "job and step"})
_ALONE: Final = {"container", _LABEL, _STAGE}
"""Types of columns that are left out only if all lines have the same value; different values distinguish the lines."""
_BESIDE: Final = {_PROCESS, "stream", _STAGE}
"""Types of columns that only follow another column; text of this form at the beginning of a line is prose."""
_COLOUR: Final = r"(?:\x1b(?:\[[0-9;]{0,12}[mK]|[\]_][^\x07\x1b\n]{0,80}\x07))*"
"""Matches escape sequences that set colours, titles and the like in a terminal."""
_NUMBER_NAME: Final = "number of the line"
_NUMBER: Final = re.compile(" {0,8}([0-9]{1,7})(?::|\t|\u2192)")
_SOURCES: Final = {**dict(_TYPES), _NUMBER_NAME: _NUMBER.pattern}
_LEVELS: Final = re.compile(
    r"(?i)(?:trace|debug|info|information|notice|warn|warning|error|err|fatal|critical|severe)\d?\Z"
)
_IS_TIME: Final = re.compile(rf"(?:{_ISO}|\d{{10}}(?:\d{{3}}|\.\d+)?|\d{{16,19}})\Z")
_QUIET: Final = {
    "time": re.compile(rf"(?:{_IS_TIME.pattern})".encode()),
    "id": re.compile(rb"[^ ]*\Z"),
    "level": re.compile(rb"(?i:trace|debug|info|information|notice)\d?\Z"),
}
"""Matches the values that are not shown, by the type of their column. A column has its type from a sample, so that any
value may occur in it."""
_MOMENT: Final = re.compile(rb"(\d{4}-\d\d-\d\d|[A-Z][a-z]{2} [ \d]\d)?[T ]?(\d\d:\d\d:\d\d)")
NEAR: Final = 4 * 1024
"""Bytes at the beginning and at the end of a text that are searched for its first and its last time."""
_DIGITS: Final = re.compile(r"\d+")
_ORDERED: Final = 0.9
"""Minimum share of the times that are not earlier than the preceding time. Times in less order are data, not fields."""
_KNOWN: Final = 256
"""Maximum values of fields whose rendering is cached."""
_NAMELESS: Final = "column "
"""Prefix of the names that are made up for the columns of a table without a header."""
_NAME_CHARS: Final = 40
"""Maximum characters of a column's name that are shown; a longer name is cut."""
_MAX_NAMES: Final = 6
"""Maximum columns that are listed by name; the others are counted."""
_ID: Final = 12
"""Minimum characters of a word that may be an identifier. It has no blank."""
_PAIRS: Final = re.compile(rb'(?:^| )([\w.@/-]{1,40})=("(?:[^"\\]|\\.)*"|[^\s"]*)(?=\s|$)')
"""Matches a pair of logfmt."""
_MAX_MEMBERS: Final = 64
"""Maximum members of a JSON line, or cells of a table's line. Lines with more are data, of which nothing may be left
out."""
_SENTENCE: Final = 12
"""Minimum mean length of the values in the column of messages, in characters."""
_VARIED: Final = 0.3
"""Minimum share of different values in the column of messages; columns of names and states repeat more often."""
_NAME_END: Final = re.compile(rb'"\s*:')
"""Matches at least once for each member of a JSON object."""
_DOUBLED: Final = re.compile(rb'""')
_FEW: Final = 4
"""Maximum different values of a column of categories, however few lines there are."""
_FEW_OF: Final = 10
"""Minimum lines per different value of a column of categories that has more than _FEW values."""
_LINE_FAULTS: Final = (*JSON_FAULTS, csv.Error)
"""Errors of the readers of lines, all for lines that are malformed."""
_decode: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_ESCAPE: Final = re.compile(rb'\\u001[bB]\[[0-9;]*[A-Za-z]|\\(?:[tr"/\\]|u(?!000[aA])[0-9a-fA-F]{4}|n(?="))')


def find_fields(head: bytes) -> LineFields | None:
    """Returns the fields of a text that begins with `head`; None if its lines consist of messages alone."""
    every = head[:_HEAD].split(b"\n")[:-1]
    step = max(1, len(every) // _SAMPLE_LINES)
    lines = [ESCAPES.sub(b"", line).decode("utf-8", "replace") for line in every[::step]]
    sampled = [line for line in lines if line.strip()]
    if len(sampled) < _MIN_LINES:
        return None
    if sum(line.startswith("{") for line in sampled) > len(sampled) / 2:
        return _of_records(sampled, _values_of_object, '"{}":"')
    if _PAIRS.match(sampled[0].encode()) and _PAIRS.match(sampled[-1].encode()):
        return _of_records(sampled, _values_of_pairs, ' {}="', "=")
    return _of_prefixes(sampled) or _of_numbers(lines, step) or _of_table(sampled)


def has_times(fields: LineFields | None) -> bool:
    """Returns whether lines are those of a log: they have a time, or are JSON lines, logfmt or a table with fields."""
    if fields is None:
        return False
    return bool(fields.member or fields.delimiter) or not _TIMED.isdisjoint(fields.names)


def has_field(values: Iterable[object]) -> bool:
    """Returns whether a time or a level is among the values of a record."""
    return any(_IS_TIME.match(text) or _LEVELS.match(text) for text in map(str, values))


def hidden_fields(fields: LineFields, data: bytes, *, begins: bool = True) -> list[Hidden]:
    """Returns the ranges of `data` that are not shown, in order. Unless `begins`, `data` begins inside a line."""
    start = 0 if begins else data.find(b"\n") + 1 or len(data)
    return _finder(fields)(data, start)


def time_range(fields: LineFields, head: bytes, tail: bytes) -> str:
    """Returns the first and the last time among the fields of a text's lines, such as `12:00 to 12:04`.

    The result is empty unless two different times are found. `head` is the beginning of the text and `tail` its end;
    each may be the whole text.
    """
    first = _moments(fields, head[:NEAR], begins=True)[:1]
    last = _moments(fields, tail[-NEAR:], begins=len(tail) <= NEAR and tail is head)[-1:]
    if not first or not last or first == last:
        return ""
    with_dates = first[0][0] != last[0][0]
    time_chars = 5 if first[0][1][:5] != last[0][1][:5] else 8  # seconds are shown if the minutes are equal
    return " to ".join(
        f"{date} {time[:time_chars]}" if with_dates else time[:time_chars] for date, time in (first[0], last[0])
    )


def first_time(fields: LineFields | None, lines: bytes) -> str:
    """Returns the first time among the fields of whole lines, with its date if it has one; empty if there is none."""
    moments = [] if fields is None else _moments(fields, lines[:NEAR], begins=True)[:1]
    return " ".join(moments[0]).strip() if moments else ""


def _moments(fields: LineFields, data: bytes, *, begins: bool) -> list[tuple[str, str]]:
    """Returns the dates and times in the hidden ranges of lines, in order."""
    hidden = hidden_fields(fields, data, begins=begins)
    matches = (_MOMENT.search(data, start, end) for start, end, _ in hidden)
    return [((match[1] or b"").decode(), match[2].decode()) for match in matches if match]


def drop_fields(fields: LineFields, data: bytes) -> bytes | None:
    """Returns whole lines without their fields, faster than by `hidden_fields`.

    Returns None if lines have labels, or fields that do not precede the message.
    """
    if fields.has_labels or fields.member or fields.delimiter:
        return None
    return _next_lead(fields).sub(b"\n", b"\n" + data)[1:]


def _columns(names: tuple[str, ...]) -> list[str]:
    return [f"(?:{_COLOUR}{_SOURCES[name]}){'?' if number else ''}" for number, name in enumerate(names)]


@lru_cache(64)
def _lead(fields: LineFields) -> re.Pattern[bytes] | None:
    """Returns the pattern whose group matches the fields in front of a line; None if fields also follow the message."""
    if fields.member or fields.delimiter:
        return None
    first = f"{_COLOUR}{_SOURCES[_LABEL]}" if fields.has_labels else ""
    return re.compile(f"^{first}({''.join(_columns(fields.names))})".encode(), re.MULTILINE)


@lru_cache(64)
def _next_lead(fields: LineFields) -> re.Pattern[bytes]:
    """Returns the pattern of a line feed and the fields behind it. It is faster than a pattern that begins with `^`."""
    return re.compile(f"\n(?:{''.join(_columns(fields.names))})".encode())


@lru_cache(64)
def _finder(fields: LineFields) -> Callable[[bytes, int], list[Hidden]]:
    lead = _lead(fields)
    if lead is not None:
        return lambda data, start: [(*match.span(1), b"") for match in lead.finditer(data, start)]
    columns = _columns(fields.inside)
    if not fields.columns:  # an earlier release detected these fields without their columns
        return lambda _data, _start: []
    prefix = "".join(columns).encode()
    if fields.member and fields.delimiter:
        name = b" " + re.escape(fields.member.encode()) + b'="'
        line = rb"^((?:(?!" + name + rb")[^\n])*+" + name + rb"(?:" + prefix + rb')?)((?:[^"\\\n]++|\\.)*+)(")([^\n]*)'
    elif fields.member:
        name = re.escape(msgspec.json.encode(fields.member))
        before = rb'(?:[^"\n]++|"(?!' + name[1:] + rb"\s*:))*+" + name
        line = rb"^(" + before + rb'\s*:\s*"(?:' + prefix + rb')?)((?:[^"\\\n]++|\\.)*+)(")([^\n]*)'
    else:
        mark = re.escape(fields.delimiter.encode())
        cell = rb'(?:"(?:[^"\n]|"")*"|[^"\n' + mark + rb"]*)" + mark
        before = rb"(?:" + cell + rb"){%d}" % len(fields.columns)
        line = rb"^(" + before + rb'"?(?:' + prefix + rb')?)((?:[^"\n]++|"")*)("?)([^\n]*)'
    return _MessageFinder(fields, re.compile(line, re.MULTILINE))


@final
class _MessageFinder:
    """Finds the hidden ranges of lines that contain a message: everything around the message, and its escapes.

    Unusual values are shown in front of the message. A line of which anything else would be lost is shown whole: one
    with more than the known fields, with a field twice, or with another text in the place of its message.
    """

    def __init__(self, fields: LineFields, line: re.Pattern[bytes]) -> None:
        self._fields = fields
        self._line = line
        self._escape = _ESCAPE if fields.member else _DOUBLED
        self._columns = {column.name: column for column in fields.columns}
        self._read = _reader(fields)
        quiet = {column.name: _QUIET[column.type] for column in fields.columns if column.type in _QUIET}
        self._is_quiet = {name: pattern.match for name, pattern in quiet.items()}
        self._known: dict[tuple[str, bytes], str] = {}
        """The rendering of values, by the name of their column and the value."""

    def __call__(self, data: bytes, start: int) -> list[Hidden]:
        out: list[Hidden] = []
        has_escapes = b"\\" in data if self._fields.member else b'""' in data
        for match in self._line.finditer(data, start):
            prefix = self._render_fields(match)
            if prefix is None:
                continue
            out.append((match.start(), match.end(1), prefix))
            if has_escapes:
                escapes = self._escape.finditer(data, match.start(2), match.end(3))
                out += [(*each.span(), _decode_escape(each[0])) for each in escapes]
            out.append((match.end(2), match.end(), b""))
        return out

    def _render_fields(self, match: re.Match[bytes]) -> bytes | None:
        """Returns the unusual values to show in front of a message; None if the line is shown whole."""
        member = self._fields.member
        if not member and match[4].strip():  # there is more behind the closing quotation mark of the message
            return None
        values = _read_values(self._read, match[0] if member else match[1])
        if values is None:
            return None
        if member:
            message = values.get(member)
            if message is None or not match.string.endswith(b'"' + message, match.start(), match.end(2)):
                return None
        out: list[str] = []
        for name, value in values.items():
            is_quiet = self._is_quiet.get(name)
            if name == member or (is_quiet is not None and is_quiet(value)):
                continue
            value_text = self._known.get((name, value))
            if value_text is None:
                column = self._columns.get(name)
                if column is None:
                    return None
                value_text = _render_value(column, value.decode("utf-8", "replace"))
                if len(self._known) < _KNOWN:
                    self._known[name, value] = value_text
            out.append(value_text)
        return "".join(out).encode("utf-8", "replace")


_LineReader = Callable[[bytes], Mapping[str, bytes] | None]
"""Returns the values of a line by the names of its fields; None if the line has another form."""


def _reader(fields: LineFields) -> _LineReader:
    if fields.member:
        return _values_of_pairs if fields.delimiter else _values_of_object
    names = [column.name for column in fields.columns]
    return lambda cells: _values_of_cells(cells, names, fields.delimiter)


def _read_values(read: _LineReader, line: bytes) -> Mapping[str, bytes] | None:
    """Returns what `read` returns; None for a malformed line, too, so that it is shown whole."""
    try:
        return read(line)
    except _LINE_FAULTS:
        return None


def _values_of_cells(cells: bytes, names: list[str], delimiter: str) -> dict[str, bytes]:
    rows = csv.reader([cells.decode("utf-8", "replace")], delimiter=delimiter)
    return {name: cell.encode() for name, cell in zip(names, next(rows), strict=False)}


def _values_of_pairs(line: bytes) -> dict[str, bytes] | None:
    """Returns the values of a line that is nothing but pairs of different names and a value; None for another line."""
    pairs: list[tuple[bytes, bytes]] = _PAIRS.findall(line)
    values = {name.decode(): value[1:-1] if value.startswith(b'"') else value for name, value in pairs}
    return values if 0 < len(pairs) == len(values) and not _PAIRS.sub(b"", line).strip() else None


def _values_of_object(line: bytes) -> dict[str, bytes] | None:
    """Returns an object's members as they are written, strings without their quotes; None if a name occurs twice.

    Raises one of JSON_FAULTS if the line is no object.
    """
    record = _decode(line)
    if len(_NAME_END.findall(line)) > len(record) and not has_unique_names(line):  # the decoder keeps the last value
        return None
    values = ((name, bytes(value)) for name, value in record.items())
    return {name: value[1:-1] if value.startswith(b'"') else value for name, value in values}


def _render_value(column: LineColumn, value: str) -> str:
    """Returns a value as it is shown in front of the message; empty if the value is usual."""
    if value in {column.usual, column.name, "null", ""}:
        return ""
    return f"{value.upper()} " if column.type == "level" and value.isalnum() else f"{column.name}={value} "


def _decode_escape(escape: bytes) -> bytes:
    if escape == b'""':
        return b'"'
    if escape == b"\\n" or escape[:6].lower() == b"\\u001b":
        return b""
    value: str = msgspec.json.decode(b'"' + escape + b'"') if b"\\ud" not in escape.lower() else escape.decode()
    return b"" if value == "\r" else value.encode("utf-8", "replace")


def _of_prefixes(lines: list[str]) -> LineFields | None:
    rests, names = lines, list[str]()
    least = _SHARED
    has_labels = False
    types = dict(_TYPES)
    # Most texts have no columns: one expression for all types finds that out at a tenth of the cost of one for each.
    first_rests = rests[:: max(1, len(rests) // _FIRST_LINES)]
    if sum(_ANY_TYPE.match(rest) is not None for rest in first_rests) < least * len(first_rests) / 2:
        return None
    while len(names) < _MAX_COLUMNS and types:
        first_rests = rests[:: max(1, len(rests) // _FIRST_LINES)]
        name, max_count = "", -1
        for each in types:
            pattern = _type(each)
            count = sum(pattern.match(rest) is not None for rest in first_rests)
            if count > max_count:
                name, max_count = each, count
            if count == len(first_rests):
                break
        if max_count < least * len(first_rests) / 2:  # no type matches enough of these lines to be tried on all
            break
        matches = [_type(name).match(rest) for rest in rests]
        count = len(rests) - matches.count(None)
        if count < least * len(rests) or (not names and name in _BESIDE):
            break
        values = [match[0] for match in matches if match]
        is_label = name == _LABEL and not names and 1 < len(set(values)) <= max(_FEW, len(values) // _FEW_OF)
        tells_apart = name in _ALONE and len(set(values)) > 1 and not is_label
        # Words before a colon are part of a sentence, not host and process; unordered times are data, as in a listing.
        is_sentence = name == _PROCESS and not any(value.endswith(("]: ", " kernel: ")) for value in values)
        if tells_apart or is_sentence or (name in _TIMED and not _is_ordered(values)):
            del types[name]
            continue
        rests = [rest[match.end() :] for rest, match in zip(rests, matches, strict=True) if match]
        has_labels = has_labels or is_label
        names += [] if is_label else [name]
        least = _FOLLOWING
    if not names or (names == ["time"] and _is_table(rests)):
        return None
    return LineFields(names=tuple(names), has_labels=has_labels)


def _is_ordered(values: list[str]) -> bool:
    """Returns whether nearly all of these times are in ascending order: at least the share _ORDERED."""
    moments = values
    if len(set(map(len, values))) > 1:
        moments = [" ".join(number.zfill(20) for number in _DIGITS.findall(value)) for value in values]
    later = sum(first <= second for first, second in pairwise(moments))
    return later >= _ORDERED * (len(moments) - 1)


@lru_cache(16)
def _type(name: str) -> re.Pattern[str]:
    return re.compile(_SOURCES[name])


def _is_table(rests: list[str]) -> bool:
    """Returns whether the rests of the lines, behind their times, are the cells of a table."""
    commas = Counter(rest.count(",") for rest in rests)
    return commas.most_common(1)[0][0] > 0 and commas.most_common(1)[0][1] > _FOLLOWING * len(rests)


def _of_numbers(lines: list[str], step: int) -> LineFields | None:
    """Returns the numbers in front of lines as fields if they are the numbers of the lines, which readers know anyway.

    Fields behind the numbers are included. Returns None if the lines are not numbered in this way.
    """
    matches = [_NUMBER.match(line) for line in lines]
    if sum(match is not None and int(match[1]) == at * step + 1 for at, match in enumerate(matches)) < _FOLLOWING * len(
        lines
    ):
        return None
    rest = _of_prefixes([line[match.end() :] for line, match in zip(lines, matches, strict=True) if match])
    return LineFields(names=(_NUMBER_NAME, *(() if rest is None else rest.names)))


def _of_records(lines: list[str], read: _LineReader, begin: str, delimiter: str = "") -> LineFields | None:
    rows = (_read_values(read, line.encode()) for line in lines)
    records = [{name: value.decode("utf-8", "replace") for name, value in each.items()} for each in rows if each]
    names = Counter(name for record in records for name in record)
    if len(records) < _FOLLOWING * len(lines) or not 1 < len(names) <= _MAX_MEMBERS:
        return None
    columns = {name: [record[name] for record in records if name in record] for name in names}
    message = _message_of(columns, list(names))
    if message is None or sum(begin.format(message) in line.replace('": "', '":"') for line in lines) < len(lines) / 2:
        return None
    seldom = {name for name, values in columns.items() if len(values) * 2 < len(records)}
    beside = tuple(_column(name, [] if name in seldom else columns[name]) for name in columns if name != message)
    return LineFields(
        _names(beside), member=message, columns=beside, inside=_inside(columns[message]), delimiter=delimiter
    )


def _of_table(lines: list[str]) -> LineFields | None:
    for delimiter in (",", "\t", ";"):
        few = lines[:: max(1, len(lines) // _FIRST_LINES)]
        if sum(delimiter in line for line in few) * 2 < len(few):
            continue
        try:
            rows = list(csv.reader([line.replace("\r", "") for line in lines], delimiter=delimiter))
        except csv.Error:  # a cell is longer than the reader's limit
            continue
        width = Counter(map(len, rows)).most_common(1)[0][0]
        if not 1 < width <= _MAX_MEMBERS or sum(len(row) == width for row in rows) < _FOLLOWING * len(lines):
            continue
        has_names = len(rows[0]) == width and not any(map(_IS_TIME.match, rows[0])) and len(set(rows[0])) == width
        names = rows[0] if has_names else [f"{_NAMELESS}{number + 1}" for number in range(width)]
        columns = {name: [row[at] for row in rows if len(row) == width] for at, name in enumerate(names)}
        if _message_of(columns, names[-1:]) is not None:
            beside = tuple(_column(name, columns[name]) for name in names[:-1])
            inside = _inside(columns[names[-1]])
            return LineFields(_names(beside), columns=beside, delimiter=delimiter, inside=inside)
    return None


def _column(name: str, values: list[str]) -> LineColumn:
    """Returns a column with its type and its usual value. The first of `values` may be the column's name."""
    rest = values[1:]
    if not rest:
        return LineColumn(name, "value")
    if all(map(_LEVELS.match, rest)):
        return LineColumn(name, "level")
    if all(map(_IS_TIME.match, rest)):
        return LineColumn(name, "time")
    if _is_id(rest) or (len(set(values)) == len(values) > _FEW and " " not in "".join(rest)):
        return LineColumn(name, "id")
    return LineColumn(name, "value", Counter(values).most_common(1)[0][0])


def _names(columns: tuple[LineColumn, ...]) -> tuple[str, ...]:
    """Returns the names of columns for a line of the service's own text: with usual values, escaped and shortened."""
    columns = tuple(each for each in columns if each.type != "value" or each.usual)
    texts = [_name_of(each) for each in columns]
    names = [one_line(text[:_NAME_CHARS]) + ("…" if len(text) > _NAME_CHARS else "") for text in texts[:_MAX_NAMES]]
    return (*names, f"{len(columns) - _MAX_NAMES} more") if len(columns) > _MAX_NAMES else tuple(names)


def _name_of(column: LineColumn) -> str:
    name = column.name
    if name.startswith(_NAMELESS):
        name = "value" if column.type == "value" else column.type
    return f"{name}={column.usual}" if column.type == "value" else name


def _inside(messages: list[str]) -> tuple[str, ...]:
    fields = _of_prefixes(messages)
    return () if fields is None or fields.has_labels else fields.names


def _message_of(columns: dict[str, list[str]], names: list[str]) -> str | None:
    """Returns which of the columns `names` holds the messages: the one with varied text and the longest values.

    None if there is none, if another column is no field, or if no other column has times or levels.
    """
    lengths = {name: sum(map(len, columns[name])) / len(columns[name]) for name in names}
    message = max((name for name in names if _is_varied(columns[name])), key=lambda name: lengths[name], default=None)
    if message is None or lengths[message] < _SENTENCE:
        return None
    others = [values for name, values in columns.items() if name != message]
    typed = [_is_typed(values) for values in others]
    few = [len(set(values)) <= max(_FEW, len(values) // _FEW_OF) or _is_id(values[1:]) for values in others]
    rest = [values for values, a, b in zip(others, typed, few, strict=True) if not (a or b)]
    # One more column may count the lines: all of its values differ, and none has a blank.
    has_counter = len(rest) == 1 and sum(few) > 1 and len(set(rest[0])) == len(rest[0]) and " " not in "".join(rest[0])
    return message if any(typed) and (not rest or has_counter) else None


def _is_varied(values: list[str]) -> bool:
    """Returns whether values are sentences: enough of them differ (_VARIED), one has a blank, and not all are times."""
    return (
        len(set(values)) >= _VARIED * len(values)
        and any(" " in value for value in values)
        and not all(map(_IS_TIME.match, values))
    )


def _is_id(values: list[str]) -> bool:
    """Returns whether values are long words without blanks, all different."""
    return len(set(values)) == len(values) > 0 and all(len(value) >= _ID and " " not in value for value in values)


def _is_typed(values: list[str]) -> bool:
    """Returns whether values are times in order, or levels. The first is ignored, as it may be the column's name."""
    rest = values[1:]
    return (bool(rest) and all(map(_LEVELS.match, rest))) or (all(map(_IS_TIME.match, rest)) and _is_ordered(rest))
