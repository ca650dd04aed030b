"""Descends from the beginning of a document to the value to which a path's first steps lead, or says why it is missing.

The descent first recognises whether a document is one JSON value, or has one value per line. Except in small documents,
it decodes only names.
"""

import re
from itertools import islice
from typing import Final, NamedTuple

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath import walk
from coatcheck.core.jsonpath.page import kind_of
from coatcheck.core.jsonpath.query import IndexSelector, Name, Step, normalize_path
from coatcheck.core.jsonpath.structure import BrokenError, TooDeepError, decode, span_of
from coatcheck.core.jsonpath.walk import ChildReader, CutShortError, LineReader, Walk, WalkSource

NO_JSON: Final = "value that is not JSON"
AT_HAND_BYTES: Final = 1024 * 1024
"""Maximum bytes of a small document, which is read as a whole."""
_BOM: Final = b"\xef\xbb\xbf"
_MAX_NAMES: Final = 12
"""Maximum members that a message lists if a path leads to a member that does not exist. Chosen, not measured."""
_SNIFF_BYTES: Final = 1024 * 1024
"""Maximum bytes by which NDJSON is distinguished from a single document, which is enough for a first line of 1 MiB."""
_BLANK: Final = b" \t\r\n"
_PUNCTUATION: Final = re.compile(rb"[\s,:\]}]")
_NO_VALUE: Final = "No match: there is no value at"
_SCALAR = rb"(?:true|false|null|NaN|-?Infinity|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?=[\s,\]}]|$)"
_BEGINS: Final = re.compile(
    rb"\s*(?:\[\s*(?:[\[{\"\]]|$|" + _SCALAR + rb"|[0-9]{400})|\{\s*(?:[\"}]|$)|\"|" + _SCALAR + rb"|-?[0-9]{400})"
)
"""Matches the beginning of JSON, as far as the first 512 bytes show it."""


class DescentPosition(NamedTuple):
    """The position at which a descent is, or ended."""

    source: WalkSource
    """The document, or the current line of an NDJSON document: the bytes behind a line belong to another value."""
    at: int
    """Offset of the first byte of the current value."""
    kind: str = NO_JSON
    """Kind of the current value."""
    path: list[Step] = []  # noqa: RUF012 - never changed in place
    """Normalized steps to the current value."""
    line: int | None = None
    """Index of the element that `source` is, if it is a line; otherwise None."""
    missing: Step | None = None
    """The first step to which no member or element corresponds; None if there is no such step."""

    def children(self, resume: int = 0, *, longest: int = walk.FIRST_WINDOW_BYTES) -> walk.Reader:
        """Returns a reader of the container's children, from the child at offset `resume` on; 0 means the first."""
        if self.source.lines:
            return LineReader(self.source, resume or self.at)
        return ChildReader(self.source, resume or self.at + 1, has_names=self.kind == "object", longest=longest)


def sniff(size: int) -> Walk[DescentPosition]:
    """Returns the position at the beginning of a document, which is one value or NDJSON.

    Raises:
        CoatcheckError: `not_json` if the document cannot be JSON.
    """
    head = yield walk.Want(0, walk.FIRST_WINDOW_BYTES)
    start = len(_BOM) if head.startswith(_BOM) else 0
    source = WalkSource(size)
    try:
        start, first = yield from walk.significant(source, start)
    except CutShortError:
        raise not_json("it is empty") from None
    if kind_of(first) is None:
        raise not_json(f"it begins with {ascii(chr(first)) if first < 128 else f'byte 0x{first:02x}'}")  # noqa: PLR2004 - ASCII
    beginning = yield walk.Want(start, start + 512)
    if not _BEGINS.match(beginning):
        excerpt = ascii(beginning[:20].decode("utf-8", "replace"))
        raise not_json(f"it begins with {excerpt}")
    # If the first line is longer than the block, more must be read to decide between one document and NDJSON.
    if start < len(head) and b"\n" not in head[start:] and size > len(head):
        head = yield walk.Want(0, _SNIFF_BYTES)
    if _is_lines(head[start:]):
        return DescentPosition(source._replace(lines=True), start, "array")
    return DescentPosition(source, start)


def _is_lines(head: bytes) -> bool:
    line, _, rest = head.partition(b"\n")
    rest = rest.lstrip(_BLANK)
    return bool(rest) and kind_of(rest[0]) is not None and _sound(line)


def not_json(why: str) -> CoatcheckError:
    """Returns the error for an artifact that is not JSON; `why` completes the sentence."""
    return CoatcheckError(
        Code.NOT_JSON,
        f"This artifact is not JSON: {why}. Use a pattern (search) or lines (read) instead of a path.",
    )


def begin(document: DescentPosition, path: tuple[Name | IndexSelector, ...]) -> Walk[DescentPosition]:
    """Returns the position from which to descend: the document, or in NDJSON the line to which the first step leads.

    Raises:
        CoatcheckError: `json_too_large` for a line over DECODED_BYTES.
    """
    if not document.source.lines or not path:
        return document
    index = path[0].index
    element = None if index is None else (yield from _nth(document, index))
    if element is None:
        return document._replace(missing=_step(path[0]))
    start, end, index = element
    return DescentPosition(WalkSource(end), start, path=[index], line=index)


def descend(place: DescentPosition, path: tuple[Name | IndexSelector, ...]) -> Walk[DescentPosition]:
    """Returns the position to which names and indices lead, or the last one on the way, with the step that is missing.

    Raises:
        BrokenError: the document is not JSON on the way.
        CutShortError: the document, or the line, ends first.
    """
    if place.source.lines:
        return place
    place = yield from _resolve_kind(place)
    path = path[len(place.path) :]
    # A small document is decoded along the path, which is faster than a walk. If the decoder finds nothing, the walk
    # finds out why.
    target = yield from _at_hand(place, path)
    if target is not None:
        return (yield from _resolve_kind(target))
    for step in path:
        child_at, child_step = yield from _child(place, step)
        if child_at is None:
            return place._replace(missing=_step(step))
        place = yield from _resolve_kind(place._replace(at=child_at, path=[*place.path, child_step]))
    return place


def _at_hand(place: DescentPosition, path: tuple[Name | IndexSelector, ...]) -> Walk[DescentPosition | None]:
    """Returns the end of a descent in a small document, found by the decoder in a fraction of the time of a walk.

    None if the document is not small, or the decoder finds no value: the value does not exist, the document is not
    strict JSON, or a step is a negative index or a token of a JSON Pointer that may be an index.
    """
    plain = all(step.index is None if isinstance(step, Name) else step.index >= 0 for step in path)
    if not path or not plain or place.source.size - place.at > AT_HAND_BYTES:
        return None
    steps: list[Step] = [step.name if isinstance(step, Name) else step.index for step in path]
    span = span_of((yield walk.Want(place.at, place.source.size)), steps)
    return None if span is None else place._replace(at=place.at + span[0], path=[*place.path, *steps])


def _resolve_kind(place: DescentPosition) -> Walk[DescentPosition]:
    at, first = yield from walk.significant(place.source, place.at)
    return place._replace(at=at, kind=kind_of(first) or NO_JSON)


def is_line_damaged(place: DescentPosition, descended: DescentPosition) -> Walk[bool]:
    """Returns whether the line in which a descent ended is not JSON; False for a line over AT_HAND_BYTES.

    A walk sees only the brackets and names on its way to a value. A whole document would have to be read to know
    whether the rest is valid, but a line is mostly short.
    """
    whole = descended.missing is None and len(descended.path) == 1  # the line is the result, and is decoded anyway
    if place.line is None or whole or place.source.size - place.at > AT_HAND_BYTES:
        return False
    return not _sound((yield walk.Want(place.at, place.source.size)))


def _sound(raw: bytes) -> bool:
    try:
        decode(raw)
    except BrokenError:
        return False
    except TooDeepError:
        pass
    return True


def _step(step: Name | IndexSelector) -> Step:
    return step.name if isinstance(step, Name) else step.index


def _child(place: DescentPosition, step: Name | IndexSelector) -> Walk[tuple[int | None, Step]]:
    reader = place.children()
    if isinstance(step, Name) and place.kind == "object" and isinstance(reader, ChildReader):
        return (yield from walk.member(place.source, reader, step.name)), step.name
    if place.kind != "array" or step.index is None:
        return None, ""
    element = yield from _nth(place, step.index)
    return (None, "") if element is None else (element[0], element[2])


def _nth(place: DescentPosition, index: int) -> Walk[tuple[int, int, int] | None]:
    if index < -walk.INDEXED_CHILDREN:
        index += yield from walk.count(place.children())
        if index < 0:
            return None
    return (yield from walk.nth(place.children(), index))


def nothing(place: DescentPosition) -> Walk[str]:
    """Returns a message that quotes the text at the place where a value should be."""
    where = normalize_path(place.path)[:300]
    beginning = yield walk.Want(place.at, min(place.source.size, place.at + 20))
    word = _PUNCTUATION.split(beginning, 1)[0].decode("utf-8", "replace")
    return f"No match: what is at {where} is not JSON: it begins with {word!a}." if word else f"{_NO_VALUE} {where}."


def miss(place: DescentPosition) -> Walk[str]:
    """Returns a message that says why a step leads nowhere, and what exists instead."""
    where = normalize_path(place.path)[:300]
    missing = ascii(place.missing) if isinstance(place.missing, int) else f"'{str(place.missing)[:100]}'"
    # The message says what would have worked, because a model bases its next call on it.
    if place.kind == "array":
        if isinstance(place.missing, str):
            each = "a document on each line" if place.source.lines else "an array"
            return f"No match: {where} is {each}, not an object; use an index, [*] or a filter before {missing}."
        length = yield from walk.count(place.children())
        return f"No match: {where} has {length:,} elements, so there is no [{missing}]."
    if place.kind != "object":
        return f"No match: {where} is a {place.kind}, which has nothing in it."
    if isinstance(place.missing, int):
        return f"No match: {where} is an object; use a name, or [*], in place of [{missing}]."
    names = yield from _names(place)
    return f"No match: {where} has no member {missing}. It has: {', '.join(names) or 'none'}."


def _names(place: DescentPosition) -> Walk[list[str]]:
    out: list[str] = []
    reader = place.children()
    try:
        while len(out) <= _MAX_NAMES and (batch := (yield from reader.next())) is not None:
            if batch.long and isinstance(reader, ChildReader):
                names = [(yield from reader.name())]
            else:
                members = (walk.text_of(batch, n) for n in range(len(batch.starts)))
                names = islice((member[2] for member in members if member is not None), _MAX_NAMES + 1 - len(out))
            out.extend(walk.name_of(name)[:60] for name in names)
    except CutShortError:
        out.append("…")
    return out[:_MAX_NAMES] + (["…"] if len(out) > _MAX_NAMES else [])
