"""Tells the fields of lines from their messages: times, levels, containers, jobs and steps, hosts, members, columns.

Decided once, by the type of the columns, never by a constant string alone: code, Markdown, differences, configuration
and tables of data are untouched. A rule of rendering: each line stays a line, and its bytes stay where they are.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Final, cast

import msgspec

from coatcheck.core.artifact import LineFields
from coatcheck.core.text.plural import counted
from coatcheck.core.text.visible_text import ESCAPES, Hidden, show_parts

_HEAD: Final = 128 * 1024
"""Bytes at the beginning that decide."""
_LINES: Final = 128
_FIRST: Final = 16
"""Lines that tell which type a column may have, before it is tried on all."""
_FEWEST: Final = 8
"""Lines below which nothing is common to them."""
_SHARED: Final = 0.5
"""Minimum share of the lines with the first column: a program's own lines, without those of what it calls."""
_FOLLOWING: Final = 0.8
"""Minimum share, of these, of the lines with a further column."""
_COLUMNS: Final = 6
_ISO: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d| UTC)?"
_MARK: Final = "\ufeff"
_TIME: Final = (
    rf"(?:{_MARK})?(?:\[{_ISO}\]|{_ISO}|\[?\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?\]?|\[ *\d{{1,7}}\.\d{{3,9}}\]"
    rf"|[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})?)(?:,? |\t|$)"
)
_TYPES: Final = (
    ("job and step", rf"(?:[^\t\n]{{1,80}}\t){{1,2}}{_TIME}"),
    ("time", _TIME),
    ("host and process", r"(?![A-Z]{3,8} )[\w.-]{1,80} [A-Za-z_/][\w./@-]{0,59}(?:\[\d{1,9}\])?: "),
    ("stream", r"(?:stdout|stderr) [FP](?: |$)"),
    ("container", r"[\w.-]{1,60} +\| ?"),
    ("quotation mark", r"> ?"),
)
"""Columns by type. A level in front of a message stays: what differs from the usual one tells lines apart."""
_TIMED: Final = frozenset({"time", "job and step"})
_ALONE: Final = {"container"}
"""Columns that are left out only if all lines have the same one, or else they tell lines apart."""
_BESIDE: Final = {"host and process", "stream"}
"""Columns that follow another one; at the beginning of lines they are prose."""
_COLOUR: Final = r"(?:\x1b\[[0-9;]{0,12}m)*"
_NUMBER_NAME: Final = "number of the line"
_NUMBER: Final = re.compile(" {0,8}([0-9]{1,7})(?::|\t|\u2192)")
_SOURCES: Final = {**dict(_TYPES), _NUMBER_NAME: _NUMBER.pattern}
_LEVELS: Final = re.compile(
    r"(?i)(?:trace|debug|info|information|notice|warn|warning|error|err|fatal|critical|severe)\d?\Z"
)
_BAD: Final = re.compile(
    rb'"(?:level|severity|lvl|levelname)"\s*:\s*"((?i:warn(?:ing)?|err(?:or)?|fatal|critical|severe|panic|alert))"'
)
_IS_TIME: Final = re.compile(rf"(?:{_ISO}|\d{{10}}(?:\d{{3}}|\.\d+)?|\d{{16,19}})\Z")
_MOMENT: Final = re.compile(rb"(\d{4}-\d\d-\d\d|[A-Z][a-z]{2} [ \d]\d)?[T ]?(\d\d:\d\d:\d\d)")
NEAR: Final = 4 * 1024
"""Bytes at an end of a text in which its first or last time is."""
_MEMBERS: Final = 10
_SENTENCE: Final = 12
"""Minimum mean number of characters of messages."""
_VARIED: Final = 0.3
"""Minimum share of different messages; identifiers and names beside them have fewer."""
_DOUBLED: Final = re.compile(rb'""')
_FEW: Final = 4
_FEW_OF: Final = 10
"""Different values of a column that tells lines apart by kind: few, or at most one in ten lines."""
_ESCAPE: Final = re.compile(rb'\\u001[bB]\[[0-9;]*[A-Za-z]|\\(?:[tr"/\\]|u(?!000[aA])[0-9a-fA-F]{4}|n(?="))')


def find_fields(head: bytes) -> LineFields | None:
    """Returns the fields of a text that begins with `head`; None if its lines are their messages."""
    every = head[:_HEAD].split(b"\n")[:-1]
    step = max(1, len(every) // _LINES)
    lines = [ESCAPES.sub(b"", line).decode("utf-8", "replace") for line in every[::step]]
    sampled = [line for line in lines if line.strip()]
    if len(sampled) < _FEWEST:
        return None
    if sampled[0].startswith("{"):
        return _of_objects(sampled)
    return _of_prefixes(sampled) or _of_numbers(lines, step) or _of_table(sampled)


def has_times(fields: LineFields | None) -> bool:
    """Returns whether lines have a time among their fields, as those of a program that ran."""
    if fields is None:
        return False
    return bool(fields.member or fields.delimiter) or not _TIMED.isdisjoint(fields.names)


def hidden_fields(fields: LineFields, data: bytes, *, begins: bool = True) -> list[Hidden]:
    """Returns what is not shown of the lines in `data`, in order; without `begins`, its first byte is inside a line."""
    start = 0 if begins else data.find(b"\n") + 1 or len(data)
    return _finder(fields)(data, start)


def without_fields(fields: LineFields | None, data: bytes, *, begins: bool = True) -> bytes:
    """Returns the messages of the lines in `data`, each in its line."""
    return data if fields is None else show_parts(data, hidden_fields(fields, data, begins=begins))


def time_range(fields: LineFields, head: bytes, tail: bytes) -> str:
    """Returns the first and the last time among the fields of a text's lines, such as `12:00:00 to 12:04:10`.

    Empty if there are not two. `head` begins with the text, `tail` ends with it; either may be all of it.
    """
    first = _moments(fields, head[:NEAR], begins=True)[:1]
    last = _moments(fields, tail[-NEAR:], begins=len(tail) <= NEAR and tail is head)[-1:]
    if not first or not last or first == last:
        return ""
    with_dates = first[0][0] != last[0][0]
    texts = [" ".join(moment) if with_dates else moment[1] for moment in (first[0], last[0])]
    return " to ".join(texts)


def _moments(fields: LineFields, data: bytes, *, begins: bool) -> list[tuple[str, str]]:
    """Returns the dates and times in what is not shown of lines, in order."""
    hidden = hidden_fields(fields, data, begins=begins)
    found = (_MOMENT.search(data, start, end) for start, end, _ in hidden)
    return [((match[1] or b"").decode(), match[2].decode()) for match in found if match]


@lru_cache(64)
def _finder(fields: LineFields) -> Callable[[bytes, int], list[Hidden]]:
    is_whole_line = not fields.member and not fields.delimiter
    names = fields.names if is_whole_line else fields.inside
    columns = (f"(?:{_COLOUR}{_SOURCES[name]}){'?' if number else ''}" for number, name in enumerate(names))
    prefix = "".join(columns).encode()
    if is_whole_line:
        lead = re.compile(b"^" + prefix, re.MULTILINE)
        return lambda data, start: [(*match.span(), b"") for match in lead.finditer(data, start)]
    if fields.member:
        name = re.escape(msgspec.json.encode(fields.member))
        line = rb"^([^\n]*?" + name + rb'\s*:\s*"(?:' + prefix + rb')?)((?:[^"\\\n]|\\.)*)(")([^\n]*)'
    else:
        mark = re.escape(fields.delimiter.encode())
        cell = rb'(?:"(?:[^"\n]|"")*"|[^"\n' + mark + rb"]*)" + mark
        before = rb"(?:" + cell + rb"){%d}" % fields.column
        line = rb"^(" + before + rb'"?(?:' + prefix + rb')?)((?:[^"\n]|"")*)("?)([^\n]*)'
    message = re.compile(line, re.MULTILINE)
    escape = _ESCAPE if fields.member else _DOUBLED
    return lambda data, start: [
        part for match in message.finditer(data, start) for part in _around(data, match, escape)
    ]


def _around(data: bytes, match: re.Match[bytes], escape: re.Pattern[bytes]) -> list[Hidden]:
    """Returns what is not shown of a line with a message in it: what surrounds that, and its escapes."""
    level = _BAD.search(data, match.start(), match.end())
    out: list[Hidden] = [(match.start(), match.end(1), level[1].upper() + b" " if level else b"")]
    out += [(*each.span(), _unescaped(each[0])) for each in escape.finditer(data, match.start(2), match.end(3))]
    return [*out, (match.start(3), match.end(), b"")]


def _unescaped(escape: bytes) -> bytes:
    if escape == b'""':
        return b'"'
    if escape == b"\\n" or escape[:6].lower() == b"\\u001b":
        return b""
    value: str = msgspec.json.decode(b'"' + escape + b'"') if b"\\ud" not in escape.lower() else escape.decode()
    return b"" if value == "\r" else value.encode("utf-8", "replace")


def _of_prefixes(lines: list[str]) -> LineFields | None:
    rests, names = lines, list[str]()
    least = _SHARED
    while len(names) < _COLUMNS:
        few = rests[:: max(1, len(rests) // _FIRST)]
        number = max(range(len(_TYPES)), key=lambda each: sum(bool(_type(each).match(rest)) for rest in few))
        name = _TYPES[number][0]
        matches = [_type(number).match(rest) for rest in rests]
        count = len(rests) - matches.count(None)
        if count < least * len(rests) or (not names and name in _BESIDE):
            break
        values = {match[0] for match in matches if match}
        if name in _ALONE and len(values) > 1:
            break
        if name == "host and process" and not any(value.endswith(("]: ", " kernel: ")) for value in values):
            break  # words with a colon behind them, which are part of a sentence
        rests = [rest[match.end() :] for rest, match in zip(rests, matches, strict=True) if match]
        names.append(name)
        least = _FOLLOWING
    if not names or (names == ["time"] and _is_table(rests)):
        return None
    return LineFields(names=tuple(names))


@lru_cache(16)
def _type(number: int) -> re.Pattern[str]:
    return re.compile(_TYPES[number][1])


def _is_table(rests: list[str]) -> bool:
    """Returns whether what follows the times are cells."""
    commas = Counter(rest.count(",") for rest in rests)
    return commas.most_common(1)[0][0] > 0 and commas.most_common(1)[0][1] > _FOLLOWING * len(rests)


def _of_numbers(lines: list[str], step: int) -> LineFields | None:
    """Returns the numbers of lines if they are those of the lines here, which are shown anyway."""
    matches = [_NUMBER.match(line) for line in lines]
    if sum(match is not None and int(match[1]) == at * step + 1 for at, match in enumerate(matches)) < _FOLLOWING * len(
        lines
    ):
        return None
    rest = _of_prefixes([line[match.end() :] for line, match in zip(lines, matches, strict=True) if match])
    return LineFields(names=(_NUMBER_NAME, *(() if rest is None else rest.names)))


def _of_objects(lines: list[str]) -> LineFields | None:
    records: list[dict[str, object]] = []
    for line in lines:
        try:
            value: object = msgspec.json.decode(line)
        except (msgspec.MsgspecError, RecursionError):
            continue
        if isinstance(value, dict):
            records.append(cast("dict[str, object]", value))
    if len(records) < _FOLLOWING * len(lines):
        return None
    names = Counter(name for record in records for name in record)
    if len(names) > _MEMBERS:
        return None
    columns = {name: [record[name] for record in records if name in record] for name in names}
    message = _message_of(columns, [name for name in names if all(isinstance(each, str) for each in columns[name])])
    if message is None:
        return None
    beside = tuple(name for name in names if name != message)
    return LineFields(names=beside, member=message, inside=_inside(columns[message]))


def _of_table(lines: list[str]) -> LineFields | None:
    for delimiter in (",", "\t", ";"):
        if not any(delimiter in line for line in lines[:_FEWEST]):
            continue
        try:
            rows = list(csv.reader([line.replace("\r", "") for line in lines], delimiter=delimiter))
        except csv.Error:  # a cell is longer than a cell may be
            continue
        width = Counter(map(len, rows)).most_common(1)[0][0]
        if not 1 < width <= _MEMBERS or sum(len(row) == width for row in rows) < _FOLLOWING * len(lines):
            continue
        columns: dict[str, list[object]] = {
            str(number): [row[number] for row in rows if len(row) == width] for number in range(width)
        }
        last = str(width - 1)
        if _message_of(columns, [last]) is not None:
            names = (counted(width - 1, "column"),)
            return LineFields(names=names, column=width - 1, delimiter=delimiter, inside=_inside(columns[last]))
    return None


def _inside(messages: list[object]) -> tuple[str, ...]:
    fields = _of_prefixes([str(message) for message in messages])
    return () if fields is None else fields.names


def _message_of(columns: dict[str, list[object]], texts: list[str]) -> str | None:
    """Returns which of some columns says something, if all others are fields, and one of them is a time or a level."""
    lengths = {name: sum(len(str(each)) for each in columns[name]) / len(columns[name]) for name in texts}
    message = max((name for name in texts if _is_varied(columns[name])), key=lambda name: lengths[name], default=None)
    if message is None or lengths[message] < _SENTENCE:
        return None
    others = [values for name, values in columns.items() if name != message]
    typed = [_is_typed(values) for values in others]
    few = [len(set(map(str, values))) <= max(_FEW, len(values) // _FEW_OF) for values in others]
    return message if any(typed) and all(a or b for a, b in zip(typed, few, strict=True)) else None


def _is_varied(values: list[object]) -> bool:
    """Returns whether values are sentences, most of which differ."""
    said = [str(value) for value in values]
    return (
        len(set(said)) >= _VARIED * len(said)
        and any(" " in each for each in said)
        and not all(map(_IS_TIME.match, said))
    )


def _is_typed(values: list[object]) -> bool:
    """Returns whether values are times or levels; the first may be a column's name."""
    rest = [str(value) for value in values[1:]]
    return all(map(_IS_TIME.match, rest)) or all(map(_LEVELS.match, rest))
