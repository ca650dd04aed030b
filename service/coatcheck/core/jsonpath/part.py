"""Part of one long value as text: a string's characters, or JSON text as it is written, without splitting a token.

Works on a stretch of raw bytes and returns exactly how many of them its text represents.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct

from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.window import decode
from coatcheck_client.contract.inert import inert

_ESCAPES: Final = (
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|\\|[^\\]{1,%d}[\x80-\xbf]{0,3}"
)
_LONGEST: Final = 12
"""Bytes of the longest escape, which the end of a stretch may cut."""
_SHARE: Final = 64
"""Bytes of plain text that are cut as one, and the rest of a character at their end."""


class TextPart(Struct, frozen=True):
    """The beginning of a stretch."""

    text: str
    tokens: int
    used: int
    """Bytes that it represents."""


def part_of(raw: bytes, *, text: bool, ends: bool, chars: int, tokens: int, tokenizer: Tokenizer) -> TextPart:
    """Returns as much of the beginning of `raw` as both budgets allow, at least one character.

    Args:
        raw: bytes of a value; for a string, from between its quotes.
        text: whether they are a string's.
        ends: whether the value ends with them; if not, their last bytes may be incomplete.
        chars: maximum characters.
        tokens: maximum tokens.
        tokenizer: counts tokens.
    """
    part = _part(raw, _SHARE, text=text, ends=ends, chars=chars, tokens=tokens, tokenizer=tokenizer)
    if part.tokens > tokens:  # even the first piece is too much
        few = raw[: 4 * _SHARE]
        ends = ends and len(few) == len(raw)
        part = _part(few, 1, text=text, ends=ends, chars=chars, tokens=tokens, tokenizer=tokenizer)
    return part


def _part(raw: bytes, share: int, *, text: bool, ends: bool, chars: int, tokens: int, tokenizer: Tokenizer) -> TextPart:
    pattern = (_ESCAPES if text else rb".{1,%d}[\x80-\xbf]{0,3}") % share
    pieces = [(m.end(), _character(m[0], text=text)) for m in re.finditer(pattern, raw, re.DOTALL)]
    while not ends and len(pieces) > 1 and len(raw) - pieces[-2][0] < _LONGEST:
        pieces.pop()
    keep, length = 0, 0
    while keep < len(pieces) and length + len(pieces[keep][1]) <= chars:
        length += len(pieces[keep][1])
        keep += 1
    keep = max(keep, 1)
    while True:
        excerpt = inert("".join(piece for _, piece in pieces[:keep]))
        used = tokenizer.count(excerpt)
        if (used <= tokens and len(excerpt) <= chars) or keep <= 1:
            break
        keep = max(1, min(keep - 1, keep * tokens // max(used, 1)))
    return TextPart(excerpt, used, pieces[keep - 1][0] if pieces else 0)


def _character(piece: bytes, *, text: bool) -> str:
    if not text or not piece.startswith(b"\\"):
        return decode(piece)
    try:
        return msgspec.json.decode(b'"' + piece + b'"', type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "\ufffd"
