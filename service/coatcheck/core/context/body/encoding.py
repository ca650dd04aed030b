"""Decodes the JSON of a body with long texts kept in UTF-8, reads values of unknown types, and writes JSON in pieces.

A history consists mostly of long texts that nobody changes. Long texts that are not ASCII stay in UTF-8 (`LongText`)
instead of becoming a `str` of up to four times the size. Only containers that lead to such a text are decoded one level
at a time; everything else is decoded as usual. A long text is unescaped and written in pieces, so that never more than
one piece of it is a `str`. Every value is written as `json.dumps` would write it.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import Any, Final, cast, final

import msgspec
from msgspec import Raw, Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.long_text import LEAST, LongText, Text, is_inside, is_text, small, strings, text_of

Value = Any
Object = dict[str, Any]


def as_object(value: Value) -> Object:
    """Returns a JSON object; for any other value an empty object."""
    return cast("Object", value) if isinstance(value, dict) else {}


def as_list(value: Value) -> list[Value]:
    """Returns a JSON array; for any other value an empty array."""
    return cast("list[Value]", value) if isinstance(value, list) else []


def as_text(value: Value) -> str | None:
    """Returns a string that is not empty; None for any other value."""
    return str(value) if is_text(value) and value else None


def kind_of(block: Object) -> str | None:
    """Returns the `type` of a part or an item; None if it has none, empty if its type is not a string."""
    kind = block.get("type")
    return kind if kind is None or isinstance(kind, str) else ""


def is_utf8(text: Text) -> bool:
    """Returns whether a text can be encoded: JSON can contain halves of surrogate pairs, which UTF-8 cannot."""
    try:
        _ = isinstance(text, LongText) or text.isascii() or text.encode()
    except UnicodeEncodeError:
        return False
    return True


def too_deep() -> CoatcheckError:
    """Returns the error for a body that is nested more deeply than the interpreter's stack allows."""
    return CoatcheckError(Code.INVALID_CONTENT, "The body is nested too deeply.")


class JsonForm(Struct, frozen=True):
    """A way to write JSON."""

    comma: str = ", "
    colon: str = ": "
    ascii: bool = False
    """Whether all characters outside ASCII are escaped."""
    sort: bool = False
    """Whether the keys of objects are sorted."""

    def dumps(self, value: Value) -> str:
        """Returns a value without long texts as JSON.

        Raises:
            TypeError: the value contains a long text.
        """
        return json.dumps(value, ensure_ascii=self.ascii, separators=(self.comma, self.colon), sort_keys=self.sort)


SPACED: Final = JsonForm()
COMPACT: Final = JsonForm(",", ":")
CANONICAL: Final = JsonForm(",", ":", sort=True)


def dump_value(value: Value, form: JsonForm = SPACED) -> Text:
    """Returns a value as JSON; the value may contain long texts."""
    try:
        return small(form.dumps(value))
    except TypeError:
        return text_of(_join_parts(pieces(value, form)))


def serialise_canonical(value: Value) -> Text:
    """Returns a value as the JSON that ingest stores: no spaces, sorted keys, so that clients' styles do not matter."""
    return dump_value(value, CANONICAL)


def pieces(value: Value, form: JsonForm = SPACED) -> Iterator[bytes]:
    """Yields a value as JSON in UTF-8, in pieces.

    Raises:
        UnicodeEncodeError: a text contains half of a surrogate pair, and the form does not escape it.
    """
    if isinstance(value, LongText):
        yield b'"'
        for text in strings(value):
            yield form.dumps(text)[1:-1].encode()
        yield b'"'
        return
    try:
        whole = form.dumps(value).encode()
    except TypeError:
        if not isinstance(value, dict | list):
            raise
        yield from _members(as_object(value), form) if isinstance(value, dict) else _elements(as_list(value), form)
    else:
        yield whole


def _members(value: dict[str, Value], form: JsonForm) -> Iterator[bytes]:
    start = "{"
    for key in sorted(value) if form.sort else value:
        yield f"{start}{form.dumps(key)}{form.colon}".encode()
        yield from pieces(value[key], form)
        start = form.comma
    yield b"}"


def _elements(value: list[Value], form: JsonForm) -> Iterator[bytes]:
    start = b"["
    for one in value:
        yield start
        yield from pieces(one, form)
        start = form.comma.encode()
    yield b"]"


def as_raw(value: object) -> Raw:
    """Returns a long text as JSON; msgspec's encoder calls this for types that it does not know."""
    if not isinstance(value, LongText):
        raise NotImplementedError(type(value).__name__)
    return Raw(_join_parts(pieces(value)))


def _join_parts(parts: Iterable[bytes]) -> bytes:
    """Returns the parts as one. A growing buffer needs less memory than `join`, which would hold all parts as well."""
    whole = BytesIO()
    for part in parts:
        whole.write(part)
    return whole.getvalue()


def plain(value: Value) -> Value:
    """Returns the value with each long text replaced by a `str`."""
    if isinstance(value, LongText):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in as_object(value).items()}
    return [plain(one) for one in as_list(value)] if isinstance(value, list) else value


@final
class MessageLines:
    """Messages as JSON, one per line. The JSON is written anew each time it is read, and never kept."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._values = list(values)
        self.sizes: Final = [sum(map(len, _line(value))) for value in self._values]
        """Bytes of each line without its line end."""

    def __iter__(self) -> Iterator[bytes]:
        for number, value in enumerate(self._values):
            if number:
                yield b"\n"
            yield from _line(value)


def _line(value: Value) -> list[bytes]:
    try:
        return list(pieces(value, COMPACT))
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can spell
        return [json.dumps(plain(value), separators=(",", ":")).encode()]


_OPEN_DEPTH: Final = 16
"""Depth of containers that are decoded one level at a time; deeper ones are decoded as a whole."""
_QUOTE, _BRACKET, _BRACE = b'"[{'
_WHOLE: Final = msgspec.json.Decoder(Raw)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ARRAY: Final = msgspec.json.Decoder(list[Raw])
_PIECE_BYTES: Final = 64 * 1024
"""Bytes of a text that are unescaped at a time."""
_ESCAPE_BYTES, _UNICODE_BYTES = 2, 6
"""Bytes of a short escape such as that of a line end, and bytes of an escape with a character's number."""

_FIRST_HALVES: Final = tuple(b"\\ud" + digit for digit in (b"8", b"9", b"a", b"b"))
"""Beginnings of an escape for the first half of a surrogate pair; the escape for the second half follows."""

Leaf = Callable[[memoryview], Value]


def decode(data: bytes | memoryview | Raw, leaf: Leaf = msgspec.json.decode) -> Value:
    """Returns a JSON value in which long texts that are not ASCII are `LongText`.

    Args:
        data: the JSON document.
        leaf: decodes the parts without such texts.

    Raises:
        msgspec.DecodeError: `data` is not JSON. `leaf` may raise other errors.
        UnicodeDecodeError: `data` is not UTF-8.
        RecursionError: the value is nested too deeply.
    """
    return _decode_view(memoryview(_WHOLE.decode(data)), leaf, _OPEN_DEPTH)


def _decode_view(view: memoryview, leaf: Leaf, depth: int) -> Value:
    if len(view) < LEAST or depth == 0 or view[0] not in {_QUOTE, _BRACKET, _BRACE} or _is_plain(view):
        return leaf(view)
    if view[0] == _QUOTE:
        return text_of(_unescape(view[1:-1]))
    if view[0] == _BRACE:
        return {key: _decode_view(memoryview(raw), leaf, depth - 1) for key, raw in _OBJECT.decode(view).items()}
    return [_decode_view(memoryview(raw), leaf, depth - 1) for raw in _ARRAY.decode(view)]


def _is_plain(view: memoryview) -> bool:
    """Returns whether JSON contains only ASCII and no escapes by number, so that all its texts are ASCII."""
    for at in range(0, len(view), _PIECE_BYTES):
        piece = bytes(view[at : at + _PIECE_BYTES + 1])
        if not piece.isascii() or b"\\u" in piece:
            return False
    return True


def _unescape(text: memoryview) -> bytes:
    """Returns the content of a JSON string, given without its quotes, as UTF-8."""
    pieces: list[bytes] = []
    start = 0
    while start < len(text):
        end = _boundary(text, start, min(start + _PIECE_BYTES, len(text)))
        piece = bytes(text[start:end])
        if b"\\" in piece:
            chunk: str = msgspec.json.decode(b'"' + piece + b'"')
            piece = chunk.encode()
        pieces.append(piece)
        start = end
    return b"".join(pieces)


def _boundary(text: memoryview, start: int, end: int) -> int:
    """Returns the first position from `end` on that splits neither an escape, nor a pair of them, nor a character.

    `start` must be such a position as well.
    """
    before = bytes(text[max(start, end - 2 * _UNICODE_BYTES) : end])
    last = before.rfind(b"\\")
    if end < len(text) and last >= 0:
        slash = end - len(before) + last
        run = bytes(text[start : slash + 1])
        if (len(run) - len(run.rstrip(b"\\"))) % 2:
            escape = bytes(text[slash : slash + _UNICODE_BYTES])
            behind = slash + (_UNICODE_BYTES if escape.startswith(b"\\u") else _ESCAPE_BYTES)
            behind += _UNICODE_BYTES if escape.lower().startswith(_FIRST_HALVES) else 0
            end = min(max(end, behind), len(text))
    while end < len(text) and is_inside(text[end]):
        end += 1
    return end
