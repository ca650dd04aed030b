"""Describes one object or array that is too long to be shown: its members with types and sizes, and their number.

A walk (see `walk.py`) over a value of any size; it decodes only names and short scalars.
"""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from coatcheck.core.jsonpath import walk
from coatcheck.core.jsonpath.decode import BrokenError
from coatcheck.core.jsonpath.descend import DescentPosition
from coatcheck.core.jsonpath.hits import Kind, ValueHit, kind_of
from coatcheck.core.jsonpath.location import Step, bracket_step, normalize_path
from coatcheck.core.jsonpath.walk import ChildBatch, ChildReader, CutShortError, Walk, WalkSource, Want
from coatcheck.core.text.excerpt import counts
from coatcheck.core.text.plural import plural
from coatcheck.core.tokens import Tokenizer
from coatcheck_client.contract.inert import MARK, one_line

MAX_MEMBERS: Final = 1_000
"""Members that are examined individually."""
_SCALAR: Final = 80
"""Bytes up to which a text, number or constant is shown."""
_NAME: Final = 120
"""Characters shown of a name."""
_EXAMPLE: Final = 160
"""Characters of a path that is given as an example."""


class JsonMember(Struct, frozen=True):
    """A member of an object."""

    name: str
    kind: Kind
    size: int
    """Bytes of its value as it is written."""
    scalar: str | None
    """The value itself if it is short, as it is written."""


class Contents(Struct, frozen=True):
    """The contents of an object or array."""

    members: list[JsonMember]
    """The first members of an object; none for an array."""
    count: int | None
    """Number of members or elements; None if unknown."""


def contents(start: int, end: int, kind: Kind, clock: Callable[[], float], deadline: float) -> Walk[Contents]:
    """Returns the contents of the value between two bytes of a document, as far as there is time."""
    place = DescentPosition(WalkSource(end), start, kind)
    members: list[JsonMember] = []
    try:
        if kind == "object":
            reader = place.children(longest=walk.WINDOW)
            while len(members) < MAX_MEMBERS and clock() < deadline:
                batch = yield from reader.next()
                if batch is None:
                    return Contents(members, len(members))
                if batch.long and isinstance(reader, ChildReader):
                    at, after = yield from reader.extent()
                    name = yield from reader.name()
                    members.append(_member(name, (yield Want(at, at + 1)), after - at))
                else:
                    members += _members(batch, MAX_MEMBERS - len(members))
        return Contents(members, None if clock() >= deadline else (yield from walk.count(place.children())))
    except (CutShortError, BrokenError):
        return Contents(members, None)


def _members(batch: ChildBatch, most: int) -> Iterator[JsonMember]:
    for number in range(min(len(batch.starts) - batch.blank, most)):
        text = walk.text_of(batch, number)
        if text is None:
            raise BrokenError
        raw = text[0].strip()
        yield _member(text[2], raw, len(raw))


def _member(name: bytes, raw: bytes, size: int) -> JsonMember:
    kind = kind_of(raw[0]) if raw else None
    if kind is None:
        raise BrokenError
    short = size <= _SCALAR and kind not in {"object", "array"}
    return JsonMember(walk.name_of(name), kind, size, raw.decode("utf-8", "replace") if short else None)


def heading(hit: ValueHit, size: int, inside: Contents, tokens: int, chars: int, tokenizer: Tokenizer) -> list[str]:
    """Returns lines that say what a value contains and how to read on, within `tokens` and `chars`."""
    is_object = hit.kind == "object"
    noun = "member" if is_object else "element"
    count = f", {plural(inside.count, noun)}" if inside.count is not None else ""
    where = normalize_path(hit.path)
    first = f"{MARK} {_clip_preview(one_line(where))} ({hit.kind}, {plural(size, 'byte')}{count})"
    rows = [_row(member) for member in inside.members]
    remaining_tokens, room, row_count = tokens, chars, 0
    for row, used in zip(rows, counts([f"{row}\n" for row in rows], tokenizer), strict=True):
        remaining_tokens, room = remaining_tokens - used, room - len(row) - 1
        if remaining_tokens < 0 or room < 0:
            break
        row_count += 1
    more = (
        ""
        if row_count == inside.count
        else " and more"
        if inside.count is None
        else f" and {inside.count - row_count:,} more"
    )
    step: Step | None = next((m.name for m in inside.members if m.scalar is None), None) if is_object else 0
    example = f", such as {one_line(where + bracket_step(step))}" if step is not None else ""
    example = example if len(example) <= _EXAMPLE else ""
    if not is_object:
        return [f"{first}; read an element by its path{example}. As it is written:"]
    return [
        first,
        *rows[:row_count],
        f"{MARK} {row_count:,} members{more}; read one by its path{example}. As it is written:",
    ]


def _row(member: JsonMember) -> str:
    value = one_line(member.scalar) if member.scalar is not None else f"{member.kind}, {plural(member.size, 'byte')}"
    return f"{one_line(member.name[:_NAME])}{'…' if len(member.name) > _NAME else ''}: {value}"


def _clip_preview(text: str) -> str:
    return text if len(text) <= _EXAMPLE else text[: _EXAMPLE - 1] + "…"
