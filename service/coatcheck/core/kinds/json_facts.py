"""Describes JSON documents, and images, other binaries and documents.

A JSON document is described by the short values near its top, and by its keys with their paths: each distinct key once,
breadth first. The others are described by what their headers say, never by their contents.
"""

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from email.errors import MessageError
from email.header import decode_header, make_header
from itertools import chain
from typing import Final, cast

from msgspec.structs import replace

from coatcheck.core.jsonpath.query import step
from coatcheck.core.kinds.description import NOTHING, Description, PayloadProbe, clip_line, select_named_parts
from coatcheck.core.media import describe, identify_written
from coatcheck.core.media.documents import MAIL
from coatcheck.core.outline.json_shape import FAILED, of_notebook
from coatcheck.core.outline.model import OutlineEntry
from coatcheck.core.records.describe import RecordFacts, tell
from coatcheck.core.records.examine import largest_path, top_values
from coatcheck.core.records.objects import lists_in
from coatcheck.core.records.stream import read_records
from coatcheck.core.text.count import first_of, format_count

_MAX_CELLS: Final = 40
"""Maximum cells of a notebook that are named."""
_MAX_LINES: Final = 120
"""Maximum lines of keys; deeper keys are then not read."""
_MAX_CHARS: Final = 16_000
"""Characters of the lines of keys after which no deeper keys are read: half of what the largest card shows."""
_VALUE: Final = 80
"""Maximum characters of a short value."""
_KEYS: Final = 200
"""Maximum keys that are named at one place."""
_OF_LINES: Final = 24
"""Maximum keys that are named at one place in JSON lines, because a card shows some of these lines."""
_CONTAINERS: Final = frozenset([dict, list])
_MAP: Final = 40
"""An object with more members than this, all of one type, is a map: its keys are data."""


def describe_json(payload: PayloadProbe) -> Description:
    """Returns short values near the top, what records say, then keys by path; of a beginning, only its keys."""
    sample, reading = payload.sample, payload.json
    if reading is None:
        return NOTHING
    value = reading.value
    if reading.complete and (notebook := of_notebook(sample.head)) is not None:
        return _notebook(notebook.entries)
    # The first line says of how much of the document the other lines are true.
    if reading.lines:
        first = f"JSON lines; keys of {'all' if reading.all_lines else 'the first'} {reading.lines}:"
    elif not reading.complete:
        why = "Not well-formed JSON; keys as far as it can be read:"
        first = why if sample.whole else "Keys of its beginning only:"
    else:
        first = top_values(value)
    records = tell(lists_in(value)) if reading.all_of_it else RecordFacts()
    if sample.whole and not reading.all_of_it:
        records = read_records(sample.head)
    lines = key_lines(value, complete=reading.complete, most=_OF_LINES if reading.lines else _KEYS)
    surveyed = None if payload.survey is None else payload.survey.path
    path = surveyed or (records.rare if reading.lines else records.path) or largest_path(value)
    last = [first] if first and not reading.complete else []
    return Description(facts=(*([first] if first and not last else []), *records.facts, *last, *lines), path=path)


def _notebook(cells: Sequence[OutlineEntry]) -> Description:
    """Returns a notebook's cells: the failed ones with their errors or, if none failed, each with what it printed."""
    failed = [cell for cell in cells if (cell.detail or "").startswith(FAILED)]
    beginning = FAILED if failed else ""
    details = [cell.detail if (cell.detail or "").startswith(beginning) else None for cell in cells]
    cell_titles = [f"{cell.title} ({each})" if each else cell.title for cell, each in zip(cells, details, strict=True)]
    fact = f"Notebook, {format_count(len(cell_titles), 'cell')}: {first_of(cell_titles, _MAX_CELLS)}"
    parts = select_named_parts([replace(cell, title=cell.title.partition(":")[0]) for cell in failed])
    return Description(facts=(fact,), parts=parts)


def key_lines(value: object, *, complete: bool, most: int = _KEYS) -> list[str]:
    """Returns a line per place with an object, outermost first, with the keys that no earlier line names.

    A line ends with `…` if the objects have further keys: those that a line above it names, or more than `most`.
    """
    # Breadth first, with all values at one place together: a list of a million records is one place.
    lines: list[str] = []
    queue: deque[tuple[str, list[object]]] = deque([("$", [value])])
    earlier_keys: set[str] = set()
    while queue and len(lines) < _MAX_LINES and sum(map(len, lines)) < _MAX_CHARS:
        path, values = queue.popleft()
        objects = cast("list[dict[str, object]]", [each for each in values if type(each) is dict])
        lists = cast("list[list[object]]", [each for each in values if type(each) is list])
        elements = list(chain.from_iterable(lists))
        members: defaultdict[str, list[object]] = defaultdict(list)
        for each in objects:
            for key, member in each.items():
                members[key].append(member)
        parts = [format_count(len(elements), "element")] if path == "$" and elements and complete else []
        if elements:
            queue.append((f"{path}[*]", elements))
        if len(members) > _MAP and len({type(member) for inner in members.values() for member in inner}) == 1:
            queue.append((f"{path}.*", list(chain.from_iterable(members.values()))))
            count = format_count(len(members), "key") if complete else "keys"
            parts.append(f"{count} such as {', '.join(map(_quote_key, list(filter(None, members))[:3]))}")
        elif members:
            # Trees repeat the keys of their outer levels at every inner one.
            keys = [key for key in members if key not in earlier_keys]
            new = [_member(key, members[key], complete) for key in keys[:most]]
            more = 0 < len(keys) < len(members) or len(keys) > most
            parts.append(", ".join([*new, "…"] if more else new))
            earlier_keys.update(members)
            nested = ((key, inner) for key, inner in members.items() if not _CONTAINERS.isdisjoint(map(type, inner)))
            queue.extend((f"{path}{step(key)}", inner) for key, inner in nested)
        if any(parts):
            lines.append(f"{path}: {'; '.join(part for part in parts if part)}")
    return lines


def _member(key: str, values: list[object], exact: bool) -> str:
    lengths = set(map(len, cast("list[list[object]]", [value for value in values if type(value) is list])))
    has_length = exact and len(lengths) == 1 and lengths not in ({0}, {1})
    return f"{_quote_key(key)}[{max(lengths)}]" if has_length else _quote_key(key)


def _quote_key(key: str) -> str:
    clipped = key if len(key) <= _VALUE else f"{key[: _VALUE - 1]}…"
    return clipped if clipped and not set(clipped) & set(' ,;:"[]{}\n\r\t') else f'"{clipped}"'


_SUBJECT: Final = re.compile(rb"^Subject:([^\n]*(?:\n[ \t][^\n]*){0,20})", re.IGNORECASE | re.MULTILINE)
_HEAD_BYTES: Final = 64 * 1024
"""Bytes of a mail in which its subject is searched for."""
_TITLE: Final = 300
"""Maximum characters of a title."""


def describe_media(payload: PayloadProbe) -> Description:
    """Returns the format, by the first bytes, with what its header says; or else the declared media type."""
    media = describe(payload.sample, payload.declared.media_type)
    first, *more = media.lines
    return Description(media_type=media.media_type, facts=(f"Format: {first}", *more), title=media.title)


def describe_written(payload: PayloadProbe) -> Description:
    """Returns the format of a document that is written as text, and the subject of a mail."""
    head = payload.sample.head[:_HEAD_BYTES]
    binary_format = identify_written(head, payload.declared.media_type)
    if binary_format is None:
        return Description(media_type=payload.declared.media_type)
    subject = _SUBJECT.search(head) if binary_format.media_type == MAIL else None
    title = None if subject is None else _decode_title(" ".join(subject[1].decode("utf-8", "replace").split()))
    facts = (f"Format: {binary_format.name}",)
    return Description(media_type=binary_format.media_type, facts=facts, title=title or None)


def _decode_title(value: str) -> str:
    """Returns the text of a header (RFC 2047); the header as it is written if it cannot be decoded."""
    try:
        return clip_line(str(make_header(decode_header(value))), _TITLE)
    except (MessageError, LookupError, ValueError):
        return clip_line(value, _TITLE)
