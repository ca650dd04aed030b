"""Part of one long value as text: a string's characters, or JSON text as it is written, cut where nothing is split.

Works on a stretch of raw bytes and says exactly how many of them its text stands for.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct

from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.window import decode
from coatcheck_client.contract.inert import inert

_PIECES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]+|\\", re.DOTALL
)
_LONGEST: Final = 12
"""Bytes of the longest escape, which the end of a stretch may cut."""
_SHARE: Final = 64
"""Characters of plain text that are cut as one."""


class TextPart(Struct, frozen=True):
    """The beginning of a stretch."""

    text: str
    tokens: int
    used: int
    """Bytes that it stands for."""


def part_of(raw: bytes, *, text: bool, ends: bool, chars: int, tokens: int, tokenizer: Tokenizer) -> TextPart:
    """As much of the beginning of `raw` as both budgets hold, and at least one character.

    Args:
        raw: bytes of a value; of a string, from between its quotes.
        text: whether they are a string's.
        ends: whether the value ends with them; if not, their last bytes may be half of something.
        chars: characters that may be given.
        tokens: tokens that may be given.
        tokenizer: counts.
    """
    part = _part(raw, _SHARE, text=text, ends=ends, chars=chars, tokens=tokens, tokenizer=tokenizer)
    if part.tokens > tokens:  # even the first piece is too much
        few = raw[: 4 * _SHARE]
        ends = ends and len(few) == len(raw)
        part = _part(few, 1, text=text, ends=ends, chars=chars, tokens=tokens, tokenizer=tokenizer)
    return part


def _part(raw: bytes, share: int, *, text: bool, ends: bool, chars: int, tokens: int, tokenizer: Tokenizer) -> TextPart:
    pieces = _cut(raw, share, escapes=text)
    if not ends:
        while pieces and len(raw) - pieces[-1][0] < _LONGEST and len(pieces) > 1:
            pieces.pop()
    keep, length = 0, 0
    while keep < len(pieces) and length + len(pieces[keep][1]) <= chars:
        length += len(pieces[keep][1])
        keep += 1
    keep = max(keep, 1)
    while True:
        shown = inert("".join(p[1] for p in pieces[:keep]))
        used = tokenizer.count(shown)
        if (used <= tokens and len(shown) <= chars) or keep <= 1:
            break
        keep = max(1, min(keep - 1, keep * tokens // max(used, 1)))
    end = pieces[keep][0] if keep < len(pieces) else (pieces[-1][0] + pieces[-1][2] if pieces else 0)
    return TextPart(shown, used, end)


def _cut(raw: bytes, width: int, *, escapes: bool) -> list[tuple[int, str, int]]:
    """Pieces that may be parted: where each begins, its text, its bytes."""
    out: list[tuple[int, str, int]] = []
    for match in _PIECES.finditer(raw) if escapes else (None,):
        start, piece = (0, raw) if match is None else (match.start(), match[0])
        if match is not None and piece.startswith(b"\\"):
            out.append((start, _character(piece), len(piece)))
            continue
        at = 0
        while at < len(piece):
            end = at + width
            while end < len(piece) and piece[end] & 0xC0 == 0x80 and end < at + width + 4:  # noqa: PLR2004 - UTF-8
                end += 1
            share = piece[at:end]
            out.append((start + at, decode(share), len(share)))
            at = end
    return out


def _character(escape: bytes) -> str:
    try:
        return msgspec.json.decode(b'"' + escape + b'"', type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "\ufffd"
