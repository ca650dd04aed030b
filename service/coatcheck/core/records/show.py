"""Words one record, its name, its message and its values."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.json import encode

from coatcheck.core.records.examine import Examined
from coatcheck.core.records.model import RecordList
from coatcheck.core.text.lexicon import SURE, classify
from coatcheck.core.text.plural import format_count

_CHARS: Final = 40
LONGEST_TEXT: Final = 160
"""Maximum characters of a value, and of a name or a message."""
_PLAIN: Final = re.compile(r"(?!(?:true|false|null)\Z)[A-Za-z_][\w./+-]*", re.ASCII)
"""Matches texts that need no quotation marks to be told from what is around them."""
_PRINTED: Final = re.compile(r"[\w./+%-][\w./:+%-]*", re.ASCII)
"""Matches those of formats in which everything is text."""
_PATH: Final = re.compile(r"\S*[/\\.]\S*")
_LINES: Final = 50
"""Lines of a message that are read."""


def show_value(value: object, records: RecordList, most: int = _CHARS) -> str:
    """Returns a value as a card says it: a plain word as it is, a text in quotation marks, `…` where it is cut."""
    if isinstance(value, str):
        if len(value) <= most and (_PLAIN if records.steps else _PRINTED).fullmatch(value):
            return value
        if len(value) > most:  # of a path, the end tells most
            value = f"…{value[-most:]}" if _PATH.fullmatch(value) else f"{value[:most]}…"
    return encode(value).decode()


def name_of(each: Examined, number: int, most: int = LONGEST_TEXT) -> str:
    """Returns what a record is called, behind what it is in where that tells it apart; or else its place."""
    own = each.records.columns[each.title][number] if each.title else None
    names = [above for above in [each.above.get(number)] if above] + (
        [] if own is None else [" ".join(str(own).split())]
    )
    return show_value(" > ".join(names), each.records, most) if names else each.records.locate(number)


def show_message(each: Examined, number: int, others: Mapping[object, str] | None = None) -> str:
    """Returns the line of a record's message that says most, in quotation marks; `others` are those of events."""
    text = message_of(each, number)
    if text is None and others is not None and each.title is not None:
        text = others.get(each.records.columns[each.title][number])
    return main_line(text) if text else ""


def main_line(message: str) -> str:
    """Returns the line of a message that says most, in quotation marks; empty if there is none."""
    lines = [" ".join(line.split()) for line in message.splitlines()[:_LINES] if line.strip()]
    telling = next((line for line in lines if classify(line.encode()) & SURE), None)
    line = telling or next(iter(lines), "")
    return encode(line if len(line) <= LONGEST_TEXT else f"{line[:LONGEST_TEXT]}…").decode() if line else ""


def message_of(each: Examined, number: int) -> str | None:
    """Returns the text of a record that says what happened, if it has any."""
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
    parts = (
        field_texts
        if message in {encode(value).decode() for value in values.values()} or message == name
        else [*field_texts, message]
    )
    return f"{name}{'' if name == place else f' ({place})'}: {', '.join(filter(None, parts))}".removesuffix(": ")


def show_size(each: Examined) -> str:
    """Returns how many records there are, and what they are."""
    records = each.records
    is_plural = records.steps or records.place.endswith("s")
    return f"{records.size} {records.place}" if is_plural else format_count(records.size, records.place)
