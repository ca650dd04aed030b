"""Changes parts of a JSON body: in values (`apply_edits`), in bytes (`splice_body`), inside strings (`splice_inner`).

A body that is decoded and encoded again has the same meaning but other bytes (1.0, 1e5, a large integer, an escape, the
order of keys, blanks), and providers cache by bytes. Therefore `splice_body` visits only the containers that lead to a
change, and skips everything else as a whole. In a JSON document that is itself a string, like the arguments of a call
in OpenAI's formats, only the literal of the old text is replaced. If an object has a key twice, the last one counts, as
in decoders. Nothing is validated: the body was decoded before, so it is JSON.

A pointer is a tuple of keys and indices; `render` writes it in the form of RFC 6901. `apply_edits` copies each
container that leads to an edit once, and shares everything else with the given body, which it never changes.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, final

import msgspec
from msgspec import Raw, Struct

from coatcheck.core.context.body.encoding import (
    JsonForm,
    Value,
    as_list,
    as_object,
    as_raw,
    decode,
    is_utf8,
    pieces,
    plain,
)
from coatcheck.core.text.long_text import LEAST, LongText, Text, is_ascii, text_of

Pointer = tuple[str | int, ...]

_MISSING = object()


def render(pointer: Pointer) -> str:
    """Returns the pointer in the form of RFC 6901: `/messages/3/content`."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in pointer)


def get(body: Value, pointer: Pointer, default: Value = None) -> Value:
    """Returns the value at a pointer; `default` if there is none."""
    value = body
    for step in pointer:
        if isinstance(step, str):
            value = as_object(value).get(step, _MISSING)
        else:
            items = as_list(value)
            value = items[step] if 0 <= step < len(items) else _MISSING
        if value is _MISSING:
            return default
    return value


def apply_edits(body: Value, edits: Mapping[Pointer, Value]) -> Value:
    """Returns the body with new values at the pointers of `edits`; everything else consists of the same objects.

    Every pointer must lead to an existing value, and none may lead through another.
    """
    return _apply(body, _Node.of(edits)) if edits else body


def _apply(value: Value, node: "_Node") -> Value:
    if node.new is not _MISSING:
        return node.new
    copy: Value = value.copy()
    for step, below in node.below.items():
        copy[step] = _apply(copy[step], below)
    return copy


_BLANK: Final = re.compile(rb"[ \t\n\r]*+")
_BETWEEN: Final = re.compile(rb"[ \t\n\r,:]*+")
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR: Final = re.compile(rb"[^ \t\n\r,\]}]++")
_TO_BRACKET: Final = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+', re.DOTALL)
"""Matches everything up to the next bracket outside strings. Possessive, since millions of escapes would otherwise take
memory for backtracking."""
_QUOTE, _BRACKET, _BRACE = b'"[{'
_CLOSING: Final = b"]}"
_BEHIND: Final = b" \t\n\r,]}"
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ARRAY: Final = msgspec.json.Decoder(list[Raw])
"""`_OBJECT` and `_ARRAY` find the ends of members and elements, ten times faster than a pattern."""

Span = tuple[int, int]


class Splice(Struct, frozen=True):
    """Elements to remove from the array at a pointer; `note` takes the place of the first one."""

    at: Pointer
    removed_elements: tuple[int, ...]
    """Numbers of the elements, in order; at least one."""
    note: Value


def splice_body(
    data: bytes,
    edits: Mapping[Pointer, Value],
    splice: Splice | None = None,
    *,
    inside: str | None = None,
    decodable: bytes | None = None,
) -> bytes:
    """Returns the body with new values at the pointers of `edits`, and without the elements of `splice`.

    Every pointer must lead to an existing value, and none may lead through another or into a removed element.

    Args:
        data: the body, or an object that contains it.
        edits: the new values, by pointer.
        splice: the elements to remove; None removes nothing.
        inside: the body's key in the object that contains it; None: `data` is the body.
        decodable: the bytes that could be decoded, if some bytes of `data` had to be changed for that; they have the
            same length, and every value is at the same place. None: `data` itself.
    """
    root = _Node.of({pointer: msgspec.json.encode(new, enc_hook=as_raw) for pointer, new in edits.items()})
    if splice is not None:
        root.at(splice.at).cut = splice
    shape = data if decodable is None else decodable
    span = (_after(_BLANK, shape, 0), len(shape.rstrip()))
    if inside is not None:
        span = dict(_members(shape, span))[inside]
    elif not edits and splice is None:
        return data
    changes: list[tuple[Span, bytes]] = []
    if edits or splice is not None:
        _change(shape, span, root, changes)
    view = memoryview(data)
    at, end = span if inside is not None else (0, len(data))
    pieces: list[bytes | memoryview] = []
    for (begin, behind), new in sorted(changes):
        pieces += [view[at:begin], new]
        at = behind
    return b"".join([*pieces, view[at:end]])


@final
class _Node:
    """A node of a tree of changes: a value that changes, or a container that leads to one."""

    def __init__(self) -> None:
        self.below: dict[str | int, _Node] = {}
        self.new: Value = _MISSING
        """The new value; as encoded JSON if bytes are changed."""
        self.cut: Splice | None = None

    @classmethod
    def of(cls, edits: Mapping[Pointer, Value]) -> "_Node":
        """Returns the root of the tree that leads to the new values."""
        root = cls()
        for pointer, new in edits.items():
            root.at(pointer).new = new
        return root

    def at(self, pointer: Pointer) -> "_Node":
        """Returns the node at a pointer below this one."""
        node = self
        for step in pointer:
            node = node.below.setdefault(step, _Node())
        return node


def _change(data: bytes, span: Span, node: _Node, changes: list[tuple[Span, bytes]]) -> None:
    """Adds the changes in the value at `span` to `changes`."""
    if node.new is not _MISSING:
        changes.append((span, node.new))
    elif data[span[0]] == _BRACE:
        last = {key: value for key, value in _members(data, span) if key in node.below}
        for key, value in last.items():
            _change(data, value, node.below[key], changes)
    else:
        _change_elements(data, span, node, changes)


def _change_elements(data: bytes, span: Span, node: _Node, changes: list[tuple[Span, bytes]]) -> None:
    left_out = frozenset[int]() if node.cut is None else frozenset(node.cut.removed_elements)
    before = span[0]
    for number, (start, end) in enumerate(_elements(data, span)):
        if node.cut is not None and number == node.cut.removed_elements[0]:
            changes.append(((start, end), msgspec.json.encode(node.cut.note)))
        elif number in left_out:
            changes.append(((before, end), b""))
        elif number in node.below:
            _change(data, (start, end), node.below[number], changes)
        before = end


def _elements(data: bytes, span: Span) -> Iterator[Span]:
    """Yields the spans of the elements of the array at `span`."""
    at = _after(_BLANK, data, span[0] + 1)
    for raw in _ARRAY.decode(memoryview(data)[span[0] : span[1]]):
        end = at + len(memoryview(raw))
        yield at, end
        at = _after(_BETWEEN, data, end)


def _members(data: bytes, span: Span) -> Iterator[tuple[str, Span]]:
    """Yields the keys of the object at `span`, and the spans of their values."""
    view = memoryview(data)
    members = _OBJECT.decode(view[span[0] : span[1]])
    at = _after(_BLANK, data, span[0] + 1)
    while data[at] == _QUOTE:
        end = _after(_STRING, data, at)
        key: str = msgspec.json.decode(view[at:end])
        at = _after(_BETWEEN, data, end)
        # If a key occurs twice, only its last value is known here. The value at this place may be another one, or a
        # longer one that begins like it.
        value = memoryview(members[key])
        end = at + len(value)
        if view[at:end] != value or data[end] not in _BEHIND:
            end = _end(data, at)
        yield key, (at, end)
        at = _after(_BETWEEN, data, end)


def _end(data: bytes, at: int) -> int:
    """Returns the end of the value that begins at `at`."""
    first = data[at]
    if first == _QUOTE:
        return _after(_STRING, data, at)
    if first not in {_BRACKET, _BRACE}:
        return _after(_SCALAR, data, at)
    depth = 0
    while True:
        depth += -1 if data[at] in _CLOSING else 1
        if depth == 0:
            return at + 1
        at = _after(_TO_BRACKET, data, at + 1)


def _after(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    """Returns the end of the match of a pattern at `at`; raises ValueError if the pattern does not match there."""
    match = pattern.match(data, at)
    if match is None:
        raise ValueError(f"no JSON at byte {at}")
    return match.end()


MAX_DEPTH = 64
"""Maximum depth to which the arguments of calls are searched for strings. They are usually flat."""


def parse_document(text: Text) -> Value:
    """Returns the JSON document in a string; None if there is none or if it is nested too deeply."""
    try:
        if isinstance(text, LongText) or (len(text) >= LEAST and "\\u" in text):
            with contextlib.suppress(msgspec.DecodeError, ValueError):  # Python takes more than JSON allows
                return decode(_bytes(text), _loads)
        return json.loads(str(text))
    except (ValueError, RecursionError):
        return None


def splice_inner(text: Text, edits: Mapping[Pointer, Value]) -> Text:
    """Returns the text of a JSON document with new values at the pointers of `edits`."""
    form = JsonForm(ascii=is_ascii(text))
    raw_edits = {pointer: msgspec.Raw(b"".join(pieces(new, form))) for pointer, new in edits.items()}
    try:
        new = splice_body(_bytes(text), raw_edits)
    except (msgspec.DecodeError, ValueError, RecursionError):  # NaN, or half of a surrogate pair, which Python accepts
        return dump_like(text, apply_edits(plain(parse_document(text)), edits))
    return new.decode() if isinstance(text, str) else text_of(new)


def _bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else text.data


def _loads(raw: memoryview) -> Value:
    return json.loads(bytes(raw))


def dump_like(text: Text, document: Value) -> str:
    """Returns a document as JSON in the form of another JSON text: its blanks, and only ASCII if it has only ASCII.

    A document with half of a surrogate pair, which UTF-8 cannot represent, is written in ASCII as well.
    """
    separators = (", ", ": ") if '": ' in text else (",", ":")
    json_text = json.dumps(document, ensure_ascii=is_ascii(text), separators=separators)
    return json_text if is_utf8(json_text) else json.dumps(document, separators=separators)
