r"""Secrets among signs that are written out: `&quot;` of pages and `\u0022` of JSON stand for themselves again.

A page's source, an attribute with JSON in it, JSON that is safe inside a page: the rules know quotes and signs as they
are. Only the surroundings of what is written out are looked at again; a text without any costs one search.
"""

import html
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import Final

from msgspec import Struct

from coatcheck.core.redact.engine import Expression
from coatcheck.core.redact.filler import SecretRange

_SIGN: Final = Expression(
    r"&(?:quot|apos|lt|gt|amp|nbsp|#[0-9]{1,3}|#[xX][0-9a-fA-F]{1,2});|\\+u00[2-7][0-9a-fA-F]", groups=False
)
_BEFORE: Final = 128
"""Bytes before a sign that are looked at with it: more than a name and what may stand between it and the sign."""
_BEHIND: Final = 768
"""Bytes behind a sign that are looked at with it: more than any secret that a name announces."""
_BETWEEN: Final = b"\n\0\n"
"""Stands for what is not looked at; nothing goes on across it."""


class PlainSigns(Struct, frozen=True):
    """The surroundings of all signs that are written out, as they read."""

    data: bytes
    starts: list[int]
    """Where in `data` each piece begins: a sign, a part of what lies between two, or _BETWEEN."""
    raw: list[tuple[int, int]]
    """Where in the text each is; _BETWEEN is nowhere, and has an empty place."""

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where in the text a part of `data` is; at least one byte."""
        return self._at(start)[0], self._at(end - 1)[1]

    def _at(self, byte: int) -> tuple[int, int]:
        """The bytes of the text that one byte stands for."""
        number = bisect_right(self.starts, byte) - 1
        low, high = self.raw[number]
        into = byte - self.starts[number]
        size = (self.starts[number + 1] if number + 1 < len(self.starts) else len(self.data)) - self.starts[number]
        return (low + into, low + into + 1) if size == high - low else (low, high)


def plain(data: bytes) -> PlainSigns | None:
    """What is written out as it reads; None where nothing is."""
    if b"&" not in data and b"\\u00" not in data:
        return None
    signs = list(_SIGN.each(data))
    if not signs:
        return None
    pieces: list[bytes] = []
    raw: list[tuple[int, int]] = []
    at = 0
    for begin, end in [*signs, (len(data), len(data))]:
        if begin - at <= _BEHIND + _BEFORE:
            if at < begin:
                pieces.append(data[at:begin])
                raw.append((at, begin))
        else:
            low, high = at + _BEHIND if at else 0, begin - _BEFORE if end > begin else len(data)
            pieces += [data[at:low], _BETWEEN, data[high:begin]]
            raw += [(at, low), (low, low), (high, begin)]
        if end > begin:
            pieces.append(_read(data[begin:end]))
            raw.append((begin, end))
        at = end
    starts = list(accumulate(map(len, pieces[:-1]), initial=0))
    return PlainSigns(b"".join(pieces), starts, raw)


def unescaped(found: list[SecretRange], text: PlainSigns) -> list[SecretRange]:
    """What was found in `text.data`, where it is in the text."""
    return [SecretRange(*text.place(each.start, each.end), each.rule) for each in found]


@lru_cache(1024)
def _read(sign: bytes) -> bytes:
    if sign.startswith(b"\\"):
        return bytes((int(sign[-4:], 16),))
    if sign == b"&nbsp;":
        return b" "
    return html.unescape(sign.decode("ascii")).encode("utf-8")
