"""Decoding JSON so that long texts stay as small as they came: as UTF-8 where they are not ASCII (`LongText`).

What is short, and what is ASCII, is decoded as ever; only on the way to a long text are containers opened, one level at
a time. A text is unescaped in pieces, so that never more than one piece of it is a `str`.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from coatcheck.core.context.body.shape import Value
from coatcheck.core.text.long_text import LEAST, is_inside, text_of

_DEPTH: Final = 16
"""Containers that are opened one in the other: what is further down is decoded as a whole."""
_QUOTE, _BRACKET, _BRACE = b'"[{'
_WHOLE: Final = msgspec.json.Decoder(Raw)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ARRAY: Final = msgspec.json.Decoder(list[Raw])
_PIECE: Final = 64 * 1024
"""Bytes of a text that are unescaped at once."""
_ESCAPE, _UNICODE = 2, 6
"""Bytes of an escape like that of a line's end, and of one by number."""

_FIRST_HALVES: Final = tuple(b"\\ud" + digit for digit in (b"8", b"9", b"a", b"b"))
"""How the first half of a surrogate pair begins; the second half follows."""

Leaf = Callable[[memoryview], Value]


def decode(data: bytes | memoryview | Raw, leaf: Leaf = msgspec.json.decode) -> Value:
    """Returns a JSON value with `LongText` for long texts that are not ASCII.

    Args:
        data: JSON.
        leaf: decodes everything else.

    Raises:
        msgspec.DecodeError: it is no JSON; and what `leaf` raises.
        UnicodeDecodeError: it is not UTF-8.
        RecursionError: it is nested too deeply.
    """
    return _decode_view(memoryview(_WHOLE.decode(data)), leaf, _DEPTH)


def _decode_view(view: memoryview, leaf: Leaf, depth: int) -> Value:
    if len(view) < LEAST or depth == 0 or view[0] not in {_QUOTE, _BRACKET, _BRACE} or _is_plain(view):
        return leaf(view)
    if view[0] == _QUOTE:
        return text_of(_unescape(view[1:-1]))
    if view[0] == _BRACE:
        return {key: _decode_view(memoryview(raw), leaf, depth - 1) for key, raw in _OBJECT.decode(view).items()}
    return [_decode_view(memoryview(raw), leaf, depth - 1) for raw in _ARRAY.decode(view)]


def _is_plain(view: memoryview) -> bool:
    """Whether JSON of some size says nothing beyond ASCII."""
    for at in range(0, len(view), _PIECE):
        piece = bytes(view[at : at + _PIECE + 1])
        if not piece.isascii() or b"\\u" in piece:
            return False
    return True


def _unescape(text: memoryview) -> bytes:
    """What stands between the quotes of a JSON string, as UTF-8."""
    pieces: list[bytes] = []
    start = 0
    while start < len(text):
        end = _boundary(text, start, min(start + _PIECE, len(text)))
        piece = bytes(text[start:end])
        if b"\\" in piece:
            chunk: str = msgspec.json.decode(b'"' + piece + b'"')
            piece = chunk.encode()
        pieces.append(piece)
        start = end
    return b"".join(pieces)


def _boundary(text: memoryview, start: int, end: int) -> int:
    """The first place from `end` on where neither an escape, nor a pair of them, nor a character is split.

    `start` is such a place.
    """
    before = bytes(text[max(start, end - 2 * _UNICODE) : end])
    last = before.rfind(b"\\")
    if end < len(text) and last >= 0:
        slash = end - len(before) + last
        run = bytes(text[start : slash + 1])
        if (len(run) - len(run.rstrip(b"\\"))) % 2:
            escape = bytes(text[slash : slash + _UNICODE])
            behind = slash + (_UNICODE if escape.startswith(b"\\u") else _ESCAPE)
            behind += _UNICODE if escape.lower().startswith(_FIRST_HALVES) else 0
            end = min(max(end, behind), len(text))
    while end < len(text) and is_inside(text[end]):
        end += 1
    return end
