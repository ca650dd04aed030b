"""From the beginning of a document to the value that a path's first steps lead to, and why there is none.

It recognises what a document is: one JSON value, or a JSON value on each line. It decodes nothing but names.
"""

import re
from itertools import islice
from typing import Final, NamedTuple

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.jsonpath import walk
from coatcheck.core.jsonpath.decode import BrokenError, TooDeepError, decode, sound, span_of
from coatcheck.core.jsonpath.hits import kind_of
from coatcheck.core.jsonpath.location import Step, normalized
from coatcheck.core.jsonpath.query import IndexSelector, Name
from coatcheck.core.jsonpath.walk import ChildBatch, CutShortError, TooLongError, Walk, WalkSource

NO_JSON: Final = "value that is not JSON"
AT_HAND: Final = 1024 * 1024
"""Bytes of a document that is looked at as a whole."""
LINE_LIMIT: Final = 8 * 1024 * 1024
"""Bytes of a line in a document of lines."""
_BOM: Final = b"\xef\xbb\xbf"
_NAMES_SHOWN: Final = 12
_SNIFF: Final = 1024 * 1024
_BLANK: Final = b" \t\r\n"
_PUNCTUATION: Final = re.compile(rb"[\s,:\]}]")
_NO_VALUE: Final = "No match: there is no value at"
_SCALAR = rb"(?:true|false|null|NaN|-?Infinity|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?=[\s,\]}]|$)"
_BEGINS: Final = re.compile(
    rb"\s*(?:\[\s*(?:[\[{\"\]]|$|" + _SCALAR + rb"|[0-9]{400})|\{\s*(?:[\"}]|$)|\"|" + _SCALAR + rb"|-?[0-9]{400})"
)
"""What JSON begins with, as far as the first 512 bytes tell."""


class DescentDocument(NamedTuple):
    """What there is to walk over."""

    source: WalkSource
    start: int
    """Its first significant byte."""


class DescentPosition(NamedTuple):
    """Where the descent is, or ended."""

    source: WalkSource
    """The document, or in a document of lines the line: what is behind its end belongs to another value."""
    at: int
    kind: str
    """NO_JSON for what begins no value."""
    path: list[Step]
    """Normalized steps."""
    lines: bool = False
    """Here is no value but all the lines, as the elements of an array."""
    line: int | None = None
    """The element that `source` is, where it is a line."""
    missing: Step | None = None
    """The step that leads nowhere."""


def sniff(size: int, *, last: bool) -> Walk[DescentDocument]:
    """What the document is.

    Raises:
        CoatcheckError: `not_json` when it cannot be JSON.
    """
    head = yield walk.Want(0, walk.FIRST_WINDOW)
    start = len(_BOM) if head.startswith(_BOM) else 0
    source = WalkSource(size, last)
    try:
        start, first = yield from walk.significant(source, start)
    except CutShortError:
        raise not_json("it is empty") from None
    if kind_of(first) is None:
        raise not_json(f"it begins with {ascii(chr(first)) if first < 128 else f'byte 0x{first:02x}'}")  # noqa: PLR2004 - ASCII
    beginning = yield walk.Want(start, start + 512)
    if not _BEGINS.match(beginning):
        shown = ascii(beginning[:20].decode("utf-8", "replace"))
        raise not_json(f"it begins with {shown}")
    if start < len(head) and b"\n" not in head[start:] and size > len(head):
        head = yield walk.Want(0, _SNIFF)
    return DescentDocument(source._replace(lines=_is_lines(head[start:])), start)


def _is_lines(head: bytes) -> bool:
    line, _, rest = head.partition(b"\n")
    rest = rest.lstrip(_BLANK)
    if not rest or kind_of(rest[0]) is None:
        return False
    try:
        decode(line)
    except BrokenError:
        return False
    except TooDeepError:
        pass
    return True


def not_json(why: str) -> CoatcheckError:
    """The refusal of what is no JSON."""
    return CoatcheckError(
        Code.NOT_JSON,
        f"This artifact is not JSON: {why}. Use a pattern (search) or lines (read) instead of a path.",
    )


def begin(document: DescentDocument, path: tuple[Name | IndexSelector, ...]) -> Walk[DescentPosition]:
    """Where to descend from: the document, or where it is one of lines, the line that the first step leads to.

    Raises:
        CoatcheckError: `json_too_large` for a line over LINE_LIMIT.
    """
    source, start = document
    if not source.lines:
        return DescentPosition(source, start, "", [])
    if not path:
        return DescentPosition(source, start, "array", [], lines=True)
    index = path[0].index
    found = None
    if index is not None:
        index, found = yield from _line(source, start, index)
    if index is None or found is None:
        return DescentPosition(source, start, "array", [], lines=True, missing=_step(path[0]))
    return DescentPosition(WalkSource(found[1], last=True), found[0], "", [index], line=index)


def descend(place: DescentPosition, path: tuple[Name | IndexSelector, ...]) -> Walk[DescentPosition]:
    """Follow names and indices.

    Raises:
        BrokenError: what is on the way is no JSON.
        CutShortError: the document, or the line, ends first.
    """
    if place.lines:
        return place
    source, at, done = place.source, place.at, list(place.path)
    if place.line is not None:
        path = path[1:]
    known = yield from _at_hand(source, at, path)
    if known is not None:
        at, path, done = known, (), [*done, *map(_step, path)]
    for step in path:
        at, first = yield from walk.significant(source, at)
        kind = kind_of(first) or NO_JSON
        found, named = yield from _child(source, at, kind, step)
        if found is None:
            return place._replace(at=at, kind=kind, path=done, missing=_step(step))
        at = found
        done.append(named)
    at, first = yield from walk.significant(source, at)
    return place._replace(at=at, kind=kind_of(first) or NO_JSON, path=done)


def damaged(place: DescentPosition, descended: DescentPosition) -> Walk[bool]:
    """Whether the line in which a descent ended is no JSON, as far as that can be told without holding much.

    Of a single value the walk sees brackets and names on the way only; whether the rest of the document is sound would
    take reading it. A line is short.
    """
    whole = descended.missing is None and len(descended.path) == 1  # which who takes it finds out
    if place.line is None or whole or place.source.size - place.at > AT_HAND:
        return False
    return not sound((yield walk.Want(place.at, place.source.size)))


def _at_hand(source: WalkSource, start: int, path: tuple[Name | IndexSelector, ...]) -> Walk[int | None]:
    """The same in a small document: it is all passed over by a decoder, in a third of the time.

    None where that does not find the value: it is not there, or the document is peculiar, or a step is.
    """
    plain = all(step.index is None if isinstance(step, Name) else step.index >= 0 for step in path)
    if source.size - start > AT_HAND or not path or not plain:
        return None
    data = yield walk.Want(start, source.size)
    found = span_of(data, list(map(_step, path)))
    return None if found is None else start + found[0]


def _step(step: Name | IndexSelector) -> Step:
    return step.name if isinstance(step, Name) else step.index


def _child(source: WalkSource, at: int, kind: str, step: Name | IndexSelector) -> Walk[tuple[int | None, Step]]:
    if kind == "object" and isinstance(step, Name):
        return (yield from walk.member(source, at, step.name)), step.name
    index = step.index
    if kind != "array" or index is None:
        return None, ""
    if index < 0:
        return (yield from walk.element_from_end(source, at, -index))
    return (yield from walk.element(source, at, index)), index


def _line(source: WalkSource, start: int, index: int) -> Walk[tuple[int, tuple[int, int] | None]]:
    """The index of line `index` from 0, and where it begins and ends; None when there is none."""
    if index < 0:
        index += yield from count_lines(source, start)
    seen = 0
    found: tuple[int, int] | None = None

    def take(batch: ChildBatch) -> bool:
        nonlocal seen, found
        if 0 <= index - seen < len(batch.starts):
            found = batch.starts[index - seen], batch.ends[index - seen]
        seen += len(batch.starts)
        return found is not None

    if index >= 0:
        yield from _all_lines(source, start, take)
    return index, found


def count_lines(source: WalkSource, start: int) -> Walk[int]:
    """How many lines hold something.

    Raises:
        CoatcheckError: `json_too_large` for a line over LINE_LIMIT.
    """
    seen = 0

    def take(batch: ChildBatch) -> bool:
        nonlocal seen
        seen += len(batch.starts)
        return False

    yield from _all_lines(source, start, take)
    return seen


def _all_lines(source: WalkSource, start: int, take: "walk.Take") -> Walk[None]:
    try:
        yield from walk.lines(source, start, take, longest=LINE_LIMIT)
    except TooLongError:
        raise too_large("a line of this document", f"over {LINE_LIMIT >> 20} MiB") from None


def too_large(where: str, size: str) -> CoatcheckError:
    """The refusal of what does not fit into memory."""
    return CoatcheckError(
        Code.JSON_TOO_LARGE,
        f"This path needs {where[:300]} ({size}) in memory, and at most {LINE_LIMIT >> 20} MiB may be. Go further "
        "down by names and indices first, or use one filter, slice or * over records ($.items[?@.id == 7].name), which "
        "may be any number; `read` and `search` work at any size.",
    )


def nothing(place: DescentPosition) -> Walk[str]:
    """A sentence that says what is written where a value should be."""
    where = normalized(place.path)[:300]
    beginning = yield walk.Want(place.at, min(place.source.size, place.at + 20))
    word = _PUNCTUATION.split(beginning, 1)[0].decode("utf-8", "replace")
    return f"No match: what is at {where} is not JSON: it begins with {word!a}." if word else f"{_NO_VALUE} {where}."


def miss(place: DescentPosition) -> Walk[str]:
    """A sentence that says why a step leads nowhere, and what there is instead."""
    source = place.source
    where = normalized(place.path)[:300]
    wanted = ascii(place.missing) if isinstance(place.missing, int) else f"'{str(place.missing)[:100]}'"
    if place.kind == "array":
        if isinstance(place.missing, str):
            each = "a document on each line" if place.lines else "an array"
            return f"No match: {where} is {each}, not an object; use an index, [*] or a filter before {wanted}."
        length = yield from (count_lines(source, place.at) if place.lines else walk.count(source, place.at))
        return f"No match: {where} has {length:,} elements, so there is no [{wanted}]."
    if place.kind != "object":
        return f"No match: {where} is a {place.kind}, which has nothing in it."
    if isinstance(place.missing, int):
        return f"No match: {where} is an object; use a name, or [*], in place of [{wanted}]."
    names = yield from _names(source, place.at)
    return f"No match: {where} has no member {wanted}. It has: {', '.join(names) or 'none'}."


def _names(source: WalkSource, at: int) -> Walk[list[str]]:
    out: list[str] = []

    def take(batch: ChildBatch) -> bool:
        members = (walk.named(batch, n) for n in range(len(batch.starts)))
        names = (member[0] for member in members if member is not None)
        out.extend(walk.name_of(name)[:60] for name in islice(names, _NAMES_SHOWN + 1 - len(out)))
        return len(out) > _NAMES_SHOWN

    try:
        yield from walk.children(source, at + 1, take, is_object=True, longest=walk.WINDOW)
    except (TooLongError, CutShortError):
        out.append("…")
    return out[:_NAMES_SHOWN] + (["…"] if len(out) > _NAMES_SHOWN else [])
