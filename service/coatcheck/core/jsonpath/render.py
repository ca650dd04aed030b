"""Renders an answer for a model within a budget: a heading with the common part of all locations, and a line per value.

All text of the document is made inert. The service's own words follow a mark that no document can contain. A mark shows
where a long value is cut, and no value is left out silently. A single object or array that is too long to be shown is
described by its members instead, with their types and sizes (`contents`, a walk that decodes only names and short
scalars).
"""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from coatcheck.core.jsonpath import walk
from coatcheck.core.jsonpath.descend import DescentPosition
from coatcheck.core.jsonpath.page import Kind, ValueHit, ValuePage, kind_of
from coatcheck.core.jsonpath.query import Step, bracket_step, normalize_path
from coatcheck.core.jsonpath.structure import BrokenError
from coatcheck.core.jsonpath.walk import ChildBatch, ChildReader, CutShortError, Walk, WalkSource, Want
from coatcheck.core.text.count import plural
from coatcheck.core.text.excerpt import counts
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.clip import Cut
from coatcheck_client.contract.inert import MARK, inert, one_line

MIN_TOKENS: Final = 128
"""Minimum token budget: a heading and the shortest form of one value fit into it."""
LISTED_CHARS: Final = 4_000
"""Maximum characters of a value in a list of values. A single value is shown up to the end of the budget."""
_CLIP_CHARS: Final = (LISTED_CHARS, 1_000, 300, 80, 20)
"""Maximum characters of each value. If not even one value fits, the next smaller number is tried."""
_MIN_CHARS_PER_TOKEN: Final = 3
"""Minimum characters that a token usually has."""
_COUNTED_ROWS: Final = 200
"""Rows whose tokens are counted in one call of the tokenizer."""
_LOCATION_CHARS: Final = 160
"""Maximum characters of a location in the text."""

_CUT: Final = f"…{MARK}"
_FOOT: Final = (
    f"{MARK} …{MARK}+n: cut by n characters, or bytes; ask for this value alone, by its path, to read all of it."
)


class RenderedValues(Struct, frozen=True):
    """A text with the values that fit the budget."""

    text: str
    tokens: int
    """Tokens of `text`."""
    value_count: int
    """Number of values in `text`."""
    clip: int
    """Maximum characters that are shown of each value."""
    limit: Cut | None
    """The limit that excludes further values; None if all values are shown."""


def render(
    page: ValuePage, first: int, fields: tuple[str, ...], tokens: int, chars: int, tokenizer: Tokenizer
) -> RenderedValues:
    """Returns as many of the page's values as fit the budget, at least one if there is any.

    Args:
        page: the page of values.
        first: number of the page's first value, from 1.
        fields: the names of the cells, if the values are shown as rows.
        tokens: maximum tokens.
        chars: maximum characters.
        tokenizer: counts tokens.
    """
    share = min(tokens * _MIN_CHARS_PER_TOKEN, chars) // max(1, len(page.hits))
    best = RenderedValues("", 0, 0, 0, None)
    for clip in [c for c in _CLIP_CHARS if c <= max(share, 300)]:
        best = _fit(page, first, fields, clip, tokens, chars, tokenizer)
        if best.value_count or not page.hits:
            return best
    return best


def _fit(
    page: ValuePage, first: int, fields: tuple[str, ...], clip: int, tokens: int, chars: int, tokenizer: Tokenizer
) -> RenderedValues:
    labels = Labels([hit.path for hit in page.hits])
    pattern = labels.pattern
    notices = render_notices(page.notices, brief=clip == _CLIP_CHARS[-1])
    fixed = "\n".join([_heading(page, pattern, first, len(page.hits), fields, clip), *notices])
    remaining_tokens, room = tokens - tokenizer.count(fixed), chars - len(fixed)
    rows, limit = _rows(page.hits, labels, clip, remaining_tokens, room, tokenizer)
    keep = len(rows)
    while keep:
        lines = [_heading(page, pattern, first, keep, fields, clip), *rows[:keep]]
        if any(_CUT in row for row in rows[:keep]):
            lines.append(_FOOT)
        text = "\n".join([*lines, *notices])
        used = tokenizer.count(text)
        if used <= tokens and len(text) <= chars:
            return RenderedValues(text, used, keep, clip, limit)
        limit = "max_tokens" if used > tokens else "max_characters"
        keep -= max(
            1, keep * (used - tokens) // (2 * used)
        )  # only half of the excess at a time, so that no value is left out unnecessarily
    return RenderedValues("", 0, 0, clip, limit)


def _rows(
    hits: list[ValueHit], labels: "Labels", clip: int, tokens: int, chars: int, tokenizer: Tokenizer
) -> tuple[list[str], Cut | None]:
    """Returns approximately as many rows as fit, and the limit that excludes the others; None if all rows fit."""
    rows: list[str] = []
    for first in range(0, len(hits), _COUNTED_ROWS):
        batch = [
            f"{labels.of(n, min(_LOCATION_CHARS, clip))}{_value(hits[n], clip)}\n"
            for n in range(first, min(first + _COUNTED_ROWS, len(hits)))
        ]
        for row, count in zip(batch, counts(batch, tokenizer), strict=True):
            tokens -= count
            chars -= len(row)
            if tokens < 0 or chars < 0:
                return rows, "max_tokens" if tokens < 0 else "max_characters"
            rows.append(row[:-1])
    return rows, None


def render_notices(notices: list[str], *, brief: bool = False) -> list[str]:
    """Returns notices as marked lines of the service; `brief` puts one short line in place of all."""
    if brief and notices:
        return [f"{MARK} This is not everything: part of the document could not be read."]
    return [f"{MARK} {inert(notice)}" for notice in notices]


def sentence(text: str, tokens: int, tokenizer: Tokenizer) -> tuple[str, int]:
    """Returns a sentence of the service as the whole answer, cut to `tokens`, and the number of its tokens."""
    line = f"{MARK} {inert(text)}".replace("\n", " ")
    used = tokenizer.count(line)
    while used > tokens:
        line = _clip(line, len(line) * 3 // 4)
        used = tokenizer.count(line)
    return line, used


def title(hit: ValueHit, what: str) -> str:
    """Returns the heading of a single value: its location, followed by the description `what`."""
    return f"{MARK} {inert(_clip(normalize_path(hit.path), _LOCATION_CHARS))} {what}"


class Labels:
    """The labels with which rows begin: the differing steps of their locations.

    Attributes:
        pattern: the steps that all locations share, with None in place of steps that differ. It is None instead of a
            list if the numbers of steps differ.
    """

    def __init__(self, paths: list[list[Step]]) -> None:
        self._paths = paths
        self.pattern = find_shared_steps(paths)
        self._own = [n for n, step in enumerate(self.pattern or []) if step is None]

    def of(self, number: int, width: int) -> str:
        """Returns the label of value `number` (from 0), including the separator between label and value."""
        path = self._paths[number]
        if self.pattern is None:
            return f"{inert(_clip(normalize_path(path), width))}: "
        if not self._own:
            return ""
        if len(self._own) == 1 and isinstance(step := path[self._own[0]], int):
            return f"{step}: "
        return f"{_clip(', '.join([_label(path[n]) for n in self._own]), width)}: "


def _label(step: Step) -> str:
    return str(step) if isinstance(step, int) else inert(bracket_step(step)[1:-1])


def find_shared_steps(paths: list[list[Step]]) -> list[Step | None] | None:
    """Returns the steps that all locations share, with None in place of steps that differ.

    None instead of the list if the numbers of steps differ.
    """
    if len(set(map(len, paths))) != 1:
        return None
    return [column[0] if len(set(column)) == 1 else None for column in zip(*paths, strict=True)]


def _heading(
    page: ValuePage, pattern: list[Step | None] | None, first: int, value_count: int, fields: tuple[str, ...], clip: int
) -> str:
    where = "" if pattern is None else _clip(_pattern(pattern), min(_LOCATION_CHARS, clip)) + " "
    total = f"{page.total:,}" if page.exact else f"at least {page.total:,}"
    last = first + value_count - 1
    numbers = f"value {first:,} of {total}" if first == last else f"values {first:,}-{last:,} of {total}"
    columns = _clip(" | ".join(inert(f) for f in fields), 4 * clip)
    return f"{MARK} {where}{numbers}{'; ' if columns else ''}{columns}"


def _pattern(pattern: list[Step | None]) -> str:
    return inert("$" + "".join("[*]" if step is None else bracket_step(step) for step in pattern))


def _value(hit: ValueHit, clip: int) -> str:
    if hit.cells is None:
        return _clip_text(hit.text, clip) if hit.whole else _render_beginning(hit, clip)
    if clip == _CLIP_CHARS[-1]:
        return _clip_text(" | ".join(hit.cells), clip)
    return " | ".join(_clip_text(cell, clip) for cell in hit.cells)


def _clip_text(text: str, clip: int) -> str:
    return inert(text) if len(text) <= clip else f"{inert(text[:clip])}…{MARK}+{len(text) - clip:,}"


def _render_beginning(hit: ValueHit, clip: int) -> str:
    """Returns the beginning of a value that was not kept completely, and how much of it is missing.

    The missing bytes can be stated only if the value's range in the document is known.
    """
    text, span = hit.text[:clip], hit.span
    if span is None:
        missing_chars = len(hit.text) - len(text)
        hidden = f"+{missing_chars:,} or more" if missing_chars else "+"
    else:
        hidden = f"+{max(1, span[1] - span[0] - len(text.encode('utf-8', 'replace'))):,} bytes"
    return f"{inert(text)}…{MARK}{hidden}"


def _clip(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


MAX_MEMBERS: Final = 1_000
"""Maximum members of an object that are listed; further members are only counted."""
_SCALAR_BYTES: Final = 80
"""Maximum bytes of a string, number or constant that is shown; of a longer one, only type and size are shown."""
_NAME_CHARS: Final = 120
"""Maximum characters that are shown of a name."""
_EXAMPLE_CHARS: Final = 160
"""Maximum characters of a path that is given as an example."""


class JsonMember(Struct, frozen=True):
    """A member of an object."""

    name: str
    kind: Kind
    size: int
    """Size of the member's value as it is written, in bytes."""
    scalar: str | None
    """The value as it is written; None for an object, an array or a value of more than _SCALAR_BYTES bytes."""


class Contents(Struct, frozen=True):
    """The contents of an object or array."""

    members: list[JsonMember]
    """The first members of an object; none for an array."""
    count: int | None
    """Number of members or elements; None if they could not all be counted."""


def contents(start: int, end: int, kind: Kind, clock: Callable[[], float], deadline: float) -> Walk[Contents]:
    """Returns the contents of the value between two offsets of a document, as far as they are read by the deadline.

    `deadline` is a time of `clock`, in seconds.
    """
    place = DescentPosition(WalkSource(end), start, kind)
    members: list[JsonMember] = []
    try:
        if kind == "object":
            reader = place.children(longest=walk.MAX_WINDOW_BYTES)
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


def _members(batch: ChildBatch, limit: int) -> Iterator[JsonMember]:
    for number in range(min(len(batch.starts) - batch.blank, limit)):
        text = walk.text_of(batch, number)
        if text is None:
            raise BrokenError
        raw = text[0].strip()
        yield _member(text[2], raw, len(raw))


def _member(name: bytes, raw: bytes, size: int) -> JsonMember:
    kind = kind_of(raw[0]) if raw else None
    if kind is None:
        raise BrokenError
    short = size <= _SCALAR_BYTES and kind not in {"object", "array"}
    return JsonMember(walk.name_of(name), kind, size, raw.decode("utf-8", "replace") if short else None)


def heading(hit: ValueHit, size: int, inside: Contents, tokens: int, chars: int, tokenizer: Tokenizer) -> list[str]:
    """Returns lines that list the members of a value and say how to read on, within `tokens` and `chars`.

    Args:
        hit: the value, an object or an array.
        size: size of the value in bytes.
        inside: the contents of the value.
        tokens: maximum tokens of the listed members.
        chars: maximum characters of the listed members.
        tokenizer: counts tokens.
    """
    is_object = hit.kind == "object"
    noun = "member" if is_object else "element"
    count = f", {plural(inside.count, noun)}" if inside.count is not None else ""
    where = normalize_path(hit.path)
    first = f"{MARK} {_clip(one_line(where), _EXAMPLE_CHARS)} ({hit.kind}, {plural(size, 'byte')}{count})"
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
    # The first member whose value is not shown serves as an example of a path to call.
    example = f", such as {one_line(where + bracket_step(step))}" if step is not None else ""
    example = example if len(example) <= _EXAMPLE_CHARS else ""
    if not is_object:
        return [f"{first}; read an element by its path{example}. As it is written:"]
    return [
        first,
        *rows[:row_count],
        f"{MARK} {plural(row_count, 'member')}{more}; read one by its path{example}. As it is written:",
    ]


def _row(member: JsonMember) -> str:
    value = one_line(member.scalar) if member.scalar is not None else f"{member.kind}, {plural(member.size, 'byte')}"
    return f"{one_line(member.name[:_NAME_CHARS])}{'…' if len(member.name) > _NAME_CHARS else ''}: {value}"
