"""Describes JSON documents, images, other binary data, and documents that are written as text.

The description of JSON has the short values near its top, and every distinct key once, breadth first, by path. All
other descriptions are taken from headers, never from contents.
"""

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from itertools import chain
from typing import Any, Final, cast

from coatcheck.core.extract.texts import cells_of, failure_of, title_of
from coatcheck.core.jsonpath.query import step
from coatcheck.core.kinds.description import NOTHING, Description, PayloadProbe
from coatcheck.core.media import describe, identify_written
from coatcheck.core.media.documents import MAIL
from coatcheck.core.records.describe import RecordFacts, tell
from coatcheck.core.records.examine import largest_path, top_values
from coatcheck.core.records.objects import lists_in
from coatcheck.core.records.stream import read_records
from coatcheck.core.text.count import first_of, format_count

_MAX_CELLS: Final = 40
"""Maximum cells of a notebook that are named."""
_MAX_LINES: Final = 120
"""Maximum lines of keys; deeper keys are left out."""
_MAX_CHARS: Final = 16_000
"""Characters of lines of keys after which deeper keys are left out: half as many as the largest card shows."""
_VALUE: Final = 80
"""Maximum characters of a key that are shown."""
_KEYS: Final = 200
"""Maximum keys that are named at one place."""
_OF_LINES: Final = 24
"""Maximum keys that are named at one place in JSON lines, of which excerpts show some anyway."""
_CONTAINERS: Final = frozenset([dict, list])
_MAP: Final = 40
"""An object with more members than this, all of one type, is a map: its keys are data."""


def describe_json(payload: PayloadProbe) -> Description:
    """Returns the short values near the top, facts about records, and keys by path.

    If only the beginning of a document can be read, the keys come from that beginning.
    """
    sample, reading = payload.sample, payload.json
    if reading is None:
        return NOTHING
    value = reading.value
    if reading.complete and (cells := cells_of(value)) is not None:
        return Description(facts=(_describe_notebook(cells),))
    # The first line says to which part of the document the keys refer.
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


def _describe_notebook(cells: Sequence[dict[str, Any]]) -> str:
    """Returns a line that names the cells of a notebook, with the exceptions that they raised."""
    titles = list(map(title_of, range(len(cells)), cells))
    for number, cell in enumerate(cells):
        if error := failure_of(cell):
            titles[number] += f" (failed: {error})"
    return f"Notebook, {format_count(len(titles), 'cell')}: {first_of(titles, _MAX_CELLS)}"


def key_lines(value: object, *, complete: bool, most: int = _KEYS) -> list[str]:
    """Returns a line for each place with objects, outermost first, with the keys that no earlier line names.

    A line ends with `…` if the objects have further keys, because an earlier line names them, or because they are more
    than `most`.

    Args:
        value: the decoded document, or its beginning.
        complete: whether `value` is the whole document, so that numbers of elements and keys are known.
        most: maximum keys in a line.
    """
    # Breadth first. All values at one place are read together, so that a list of a million records is one place.
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
            # In a tree, every inner level repeats the keys of the outer levels.
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
"""Bytes at the beginning of a mail that are searched for its subject."""
_TITLE: Final = 300
"""Maximum characters of a title."""


def describe_media(payload: PayloadProbe) -> Description:
    """Returns the format that the first bytes show, with facts from its header, or else the declared media type."""
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
    """Returns the decoded text of a mail header (RFC 2047), or the header itself if it cannot be decoded."""
    try:
        return str(make_header(decode_header(value)))[:_TITLE]
    except (HeaderParseError, LookupError, ValueError):
        return value[:_TITLE]
