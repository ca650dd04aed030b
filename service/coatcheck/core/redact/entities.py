r"""Secrets among signs that are written out: `&quot;` of pages and `\u0022` of JSON stand for themselves again.

A page's source, an attribute with JSON in it, JSON that is safe inside a page: the rules know quotes and signs as they
are. Only the surroundings of what is written out are looked at again; a text without any costs one search.
"""

import html
from bisect import bisect_right
from typing import Final

from msgspec import Struct

from coatcheck.core.redact.engine import Expression
from coatcheck.core.redact.filler import Secret

_WRITTEN: Final = Expression(
    r"&(?:quot|apos|lt|gt|amp|nbsp|#(?:[0-9]{1,3}|[xX][0-9a-fA-F]{1,2}));|\\+u00[2-7][0-9a-fA-F]", groups=False
)
_BEFORE: Final = 128
"""Bytes before a sign that are looked at with it: more than a name and what may stand between it and the sign."""
_BEHIND: Final = 768
"""The same behind it: more than any secret that a name announces."""


class Plain(Struct, frozen=True):
    """The surroundings of all signs that are written out, as they read, with a line between each two."""

    data: bytes
    starts: list[int]
    """Where in `data` each piece begins: a sign, or what lies between two."""
    raw: list[tuple[int, int]]
    """Where in the text each is; a separator is nowhere, and has an empty place."""

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where in the text a part of `data` is."""
        return self._at(start)[0], self._at(end - 1)[1]

    def _at(self, byte: int) -> tuple[int, int]:
        """The bytes of the text that one byte stands for."""
        number = bisect_right(self.starts, byte) - 1
        low, high = self.raw[number]
        into = byte - self.starts[number]
        size = (self.starts[number + 1] if number + 1 < len(self.starts) else len(self.data)) - self.starts[number]
        return (low + into, low + into + 1) if size == high - low else (low, high)


def plain(data: bytes) -> Plain | None:
    """What is written out as it reads; None where nothing is."""
    if b"&" not in data and b"\\u00" not in data:
        return None
    pieces: list[bytes] = []
    starts: list[int] = []
    raw: list[tuple[int, int]] = []
    size = done = 0

    def add(piece: bytes, low: int, high: int) -> None:
        nonlocal size
        if piece:
            pieces.append(piece)
            starts.append(size)
            raw.append((low, high))
            size += len(piece)

    for begin, end in _WRITTEN.each(data):
        if begin - _BEFORE > done + _BEHIND:  # far from the one before: its surroundings end, ours begin
            if pieces:
                add(data[done : done + _BEHIND], done, done + _BEHIND)
                add(b"\n", done + _BEHIND, done + _BEHIND)
            done = begin - _BEFORE
        add(data[done:begin], done, begin)
        add(_read(data[begin:end]), begin, end)
        done = end
    if not pieces:
        return None
    add(data[done : done + _BEHIND], done, min(len(data), done + _BEHIND))
    return Plain(b"".join(pieces), starts, raw)


def unescaped(found: list[Secret], text: Plain) -> list[Secret]:
    """What was found in `text.data`, where it is in the text."""
    return [Secret(*text.place(each.start, each.end), each.rule) for each in found]


def _read(sign: bytes) -> bytes:
    if sign.startswith(b"\\"):
        return bytes((int(sign[-4:], 16),))
    if sign == b"&nbsp;":
        return b" "
    return html.unescape(sign.decode("ascii")).encode("utf-8")
