"""Puts records into words: how often values occur, their ranges, and single records.

`records_in` reads texts other than JSON: XML, YAML, blocks of pairs, tables in columns.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.json import encode

from coatcheck.core.records.examine import FEW, Examined, is_reference
from coatcheck.core.records.model import LINE, STATES, Column, RecordList
from coatcheck.core.records.objects import lists_in
from coatcheck.core.records.statistics import Extreme, FieldStatistic, examine
from coatcheck.core.records.tables import read_columns, rows_of
from coatcheck.core.records.yaml import read_pairs, read_xml, read_yaml
from coatcheck.core.text.count import first_of, format_count
from coatcheck.core.text.lexicon import SURE, classify

_VALUE_CHARS: Final = 40
"""Maximum characters of a value that stands among other values."""
LONGEST_TEXT: Final = 160
"""Maximum characters of a name or a message."""
_PLAIN: Final = re.compile(r"(?!(?:true|false|null)\Z)[A-Za-z_][\w./+-]*", re.ASCII)
"""Matches texts that are unambiguous without quotation marks."""
_PRINTED: Final = re.compile(r"[\w./+%-][\w./:+%-]*", re.ASCII)
"""Matches such texts in formats in which every value is text."""
_PATH: Final = re.compile(r"\S*[/\\.]\S*")
_LINES: Final = 50
"""Maximum lines of a message that are read."""


def show_value(value: object, records: RecordList, most: int = _VALUE_CHARS) -> str:
    """Returns a value as a card shows it: a plain word as it is, any other text in quotation marks, with `…` at a cut.

    `most` is the maximum number of characters.
    """
    if isinstance(value, str):
        if len(value) <= most and (_PLAIN if records.steps else _PRINTED).fullmatch(value):
            return value
        if len(value) > most:  # the end of a path is its most informative part
            value = f"…{value[-most:]}" if _PATH.fullmatch(value) else f"{value[:most]}…"
    return encode(value).decode()


def name_of(each: Examined, number: int, most: int = LONGEST_TEXT) -> str:
    """Returns a record's name, after the name of the record around it if known; if it has no name, its location."""
    own = each.records.columns[each.title][number] if each.title else None
    names = [above for above in [each.above.get(number)] if above]
    names += [] if own is None else [" ".join(str(own).split())]
    return show_value(" > ".join(names), each.records, most) if names else each.records.locate(number)


def show_message(each: Examined, number: int, others: Mapping[object, str] | None = None) -> str:
    """Returns the most informative line of a record's message, in quotation marks; empty if there is no message.

    `others` has messages by name, for records without a message of their own.
    """
    text = message_of(each, number)
    if text is None and others is not None and each.title is not None:
        text = others.get(each.records.columns[each.title][number])
    return main_line(text) if text else ""


def main_line(message: str) -> str:
    """Returns the most informative line of a message, in quotation marks: the first that states a failure, if any.

    Otherwise, it is the first line. The result is empty if all lines are blank.
    """
    lines = [" ".join(line.split()) for line in message.splitlines()[:_LINES] if line.strip()]
    telling = next((line for line in lines if classify(line.encode()) & SURE), None)
    line = telling or next(iter(lines), "")
    return encode(line if len(line) <= LONGEST_TEXT else f"{line[:LONGEST_TEXT]}…").decode() if line else ""


def message_of(each: Examined, number: int) -> str | None:
    """Returns the text of a record that says what happened; None if the record has none."""
    values = (each.records.columns[name][number] for name in each.messages)
    return next((value for value in values if isinstance(value, str)), None)


def show_record(each: Examined, number: int, fields: Sequence[str], others: Mapping[object, str] | None = None) -> str:
    """Returns a record in one line."""
    records = each.records
    values = {name.removeprefix("."): records.columns[name][number] for name in fields}
    field_texts = [
        f"no {name}" if value in {None, ""} else f"{name}={show_value(value, records)}"
        for name, value in values.items()
    ]
    name, place, message = name_of(each, number), records.locate(number), show_message(each, number, others)
    if message != name and message not in {encode(value).decode() for value in values.values()}:
        field_texts.append(message)
    return f"{name}{'' if name == place else f' ({place})'}: {', '.join(filter(None, field_texts))}".removesuffix(": ")


def show_size(each: Examined) -> str:
    """Returns the number of records with the name of their place, such as `150 testcases`."""
    records = each.records
    is_plural = records.steps or records.place.endswith("s")
    return f"{records.size} {records.place}" if is_plural else format_count(records.size, records.place)


_FIELDS: Final = 12
"""Maximum fields of a list that are counted."""
_VALUES: Final = 12
"""Maximum values of a field that are listed, most frequent first."""
_NUMBERS: Final = 3
"""Maximum different numbers of a field that are always counted. More numbers are usually described by their range."""
_OFTEN: Final = 10
"""Up to FEW different numbers are counted as well, if each occurs this often on average."""
_CLASSES: Final = re.compile(r"(?i)\w*(?:rule|code|check|symbol|type|kind|category|class)(?:_?id|_?name)?")
"""Matches the names of fields that classify records."""


def tell_counts(
    records: RecordList, statistics: dict[str, FieldStatistic] | None = None, title: str | None = None
) -> list[str]:
    """Returns how often values occur in records, without showing single records.

    It serves records that excerpts show already, and records of which only statistics are left. `title` is the field
    that names the records; None: there is no such field.
    """
    if statistics is None:
        statistics = {name: examine(column) for name, column in records.columns.items()}
    return list(filter(None, [count_fields(Examined(records, statistics, None, (), title, [], {}))]))


def is_worth_counting(name: str, records: RecordList, statistic: FieldStatistic) -> bool:
    """Returns whether a field of the first records of a text may be worth counting in all of them."""
    return _is_worth_telling(Examined(records, {}, None, (), None, [], {}), name, statistic)


def count_fields(each: Examined) -> str:
    """Returns how often the values of each field occur, or their range; empty if no field is worth counting."""
    parts: list[str] = []
    same: list[Counter[object]] = []
    columns: list[Column] = []
    for name in sorted(each.statistics, key=lambda name: _order(each, name)):
        statistic = each.statistics[name]
        column = each.records.columns[name]
        if not _is_worth_telling(each, name, statistic):
            continue
        # A field whose values correspond one to one to those of a counted field (`level`, `levelname`) adds nothing.
        counts = None if _is_ranged(each.records.last_step(name), statistic) else statistic.counts
        if counts is not None and any(
            sorted(other.values()) == sorted(counts.values()) and _correspond(column, others)
            for other, others in zip(same, columns, strict=True)
        ):
            continue
        field_text = _show_field(each, name, statistic)
        if field_text and len(parts) < min(_FIELDS, each.records.size // 4):
            parts.append(f"{name.removeprefix('.') if each.records.steps else name} {field_text}")
            if counts is not None:
                same.append(counts)
                columns.append(column)
    if not parts:
        return ""
    return f"{show_size(each)}: {'; '.join(parts)}"


def _is_worth_telling(each: Examined, name: str, statistic: FieldStatistic) -> bool:
    """Returns whether the values of a field are useful to a reader: they recur, or have a range."""
    last = each.records.last_step(name)
    if 4 * statistic.present <= each.records.size:
        return False
    if _is_ranged(last, statistic):
        if is_reference(last):
            return False
        return statistic.least.value != statistic.greatest.value  # pyright: ignore[reportOptionalMemberAccess]
    counts = statistic.counts
    if counts is not None and len(counts) == 1:
        return each.records.place == LINE or STATES.fullmatch(last) is not None
    if counts is None or any(isinstance(value, str) and len(value) > 2 * _VALUE_CHARS for value in counts):
        return False
    words = all(not isinstance(value, str) or " " not in value for value in counts)
    least = 1 if _CLASSES.fullmatch(last) else 2 if words or len(counts) <= FEW else 4
    return least * len(counts) < statistic.present


def _is_ranged(last: str, statistic: FieldStatistic) -> bool:
    """Returns whether a field is described by its range: it has times, or many different numbers that are no codes."""
    counts = statistic.counts
    if statistic.least is None or counts is None or not statistic.is_number:
        return statistic.least is not None
    if _CLASSES.fullmatch(last) or STATES.fullmatch(last):
        return False
    few = len(counts) <= _NUMBERS or (len(counts) <= FEW and len(counts) * _OFTEN <= statistic.present)
    return not few or any("." in str(value) for value in counts)


def _order(each: Examined, name: str) -> tuple[bool, int, int, int]:
    """Returns the sort key of a field: the verdict first, then states, classes, other texts, and fields with a range.

    Among these, outer fields come first, then those with few different values.
    """
    statistic, last = each.statistics[name], each.records.last_step(name)
    kind = 0 if STATES.fullmatch(last) else 1 if _CLASSES.fullmatch(last) else 2
    kind = 3 if _is_ranged(last, statistic) else kind
    return name != each.verdict, kind, name.count("."), len(statistic.counts or ())


def _show_field(each: Examined, name: str, statistic: FieldStatistic) -> str:
    counts = statistic.counts
    if _is_ranged(each.records.last_step(name), statistic):
        return f"{_extreme(each, statistic.least)} to {_extreme(each, statistic.greatest)}"  # pyright: ignore[reportArgumentType]
    ordered = sorted((counts or Counter()).items(), key=lambda item: (-item[1], encode(item[0])))
    items = [f"{show_value(value, each.records)} {count}" for value, count in ordered]
    chars = most = 0
    for item in items[:_VALUES]:
        chars += len(item)
        most += not most or chars <= 2 * LONGEST_TEXT
    missing = each.records.size - statistic.present
    value_list = first_of(items, most, "more values", separator=", ")
    return f"{value_list}, none {missing}" if missing and most == len(items) else value_list


def _extreme(each: Examined, extreme: Extreme) -> str:
    """Returns an extreme value. If only one record has it, the record's name, time or location is added."""
    text = str(extreme.value) if not isinstance(extreme.value, float) else encode(extreme.value).decode()
    if not extreme.alone or not any(map(len, each.records.columns.values())):  # no columns: the text was streamed
        return text
    if each.title is not None:
        name = name_of(each, extreme.record, _VALUE_CHARS)
        return text if name == text else f"{text} ({name})"
    times = [name for name, field in each.statistics.items() if field.least is not None and not field.is_number]
    column = each.records.columns[times[0]] if len(times) == 1 else ()
    apart = len({*column}) == each.records.size  # every record has a time of its own
    location = column[extreme.record] if apart else each.records.locate(extreme.record)
    at_end = extreme.record in {0, each.records.size - 1}
    return text if at_end or location == extreme.value else f"{text} ({location})"


def _correspond(one: Column, other: Column) -> bool:
    """Returns whether the values of two fields in the same records correspond one to one."""
    if not one or not other:  # the text was streamed
        return False
    return len(set(zip(one, other, strict=True))) == len(set(one)) == len(set(other))


def documents_in(text: bytes) -> list[RecordList]:
    """Returns the records of a document that is a whole text; none of any other text."""
    reading = read_xml(text) or read_yaml(text) or read_pairs(text)
    return [] if reading is None else lists_in(reading.value, reading.lines)


def records_in(text: bytes) -> list[RecordList]:
    """Returns the records of a whole text, read in the first form that fits all of it."""
    if documents := documents_in(text):
        return documents
    table = read_columns(text.decode("utf-8", "replace"))
    if table is not None:
        rows, lines = table
        return [rows_of(rows[0], rows[1:], lines[1:])]
    return []
