r"""Finds secrets next to escaped characters, by unescaping `&quot;` in pages and `\u0022` in JSON first.

Page sources, attributes that contain JSON, and JSON made safe for pages are full of them, while the rules expect the
plain characters. Only the surroundings of escapes are searched again; a text without escapes costs one search.
"""

import html
from bisect import bisect_right
from itertools import accumulate
from typing import Final

from msgspec import Struct

from coatcheck.core.caches import remember
from coatcheck.core.redact.engine import Expression
from coatcheck.core.redact.filler import SecretRange

_SIGN: Final = Expression(
    r"&(?:quot|apos|lt|gt|amp|nbsp|#[0-9]{1,3}|#[xX][0-9a-fA-F]{1,2});|\\+u00[2-7][0-9a-fA-F]", groups=False
)
_BEFORE: Final = 128
"""Bytes before an escape that are searched with it: more than a name and what may separate them."""
_BEHIND: Final = 768
"""Bytes after an escape that are searched with it: more than any secret that follows a name."""
_BETWEEN: Final = b"\n\0\n"
"""Separates the pieces that are searched; no match extends across it."""


class PlainSigns(Struct, frozen=True):
    """The surroundings of all escapes, unescaped."""

    data: bytes
    starts: list[int]
    """Where each piece begins in `data`: an unescaped character, text between two, or _BETWEEN."""
    raw: list[tuple[int, int]]
    """Where each piece stands in the text; _BETWEEN stands nowhere, so its range is empty."""

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Returns where a part of `data` stands in the text: at least one byte."""
        return self._at(start)[0], self._at(end - 1)[1]

    def _at(self, byte: int) -> tuple[int, int]:
        """Returns the bytes of the text that one byte of `data` stands for."""
        number = bisect_right(self.starts, byte) - 1
        low, high = self.raw[number]
        into = byte - self.starts[number]
        size = (self.starts[number + 1] if number + 1 < len(self.starts) else len(self.data)) - self.starts[number]
        return (low + into, low + into + 1) if size == high - low else (low, high)


def plain(data: bytes) -> PlainSigns | None:
    """Returns the surroundings of all escapes, unescaped; None if the text has no escapes."""
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
    """Maps matches in `text.data` back to their places in the text."""
    return [SecretRange(*text.place(each.start, each.end), each.rule) for each in found]


@remember("names", 1_024, 240)
def _read(sign: bytes) -> bytes:
    if sign.startswith(b"\\"):
        return bytes((int(sign[-4:], 16),))
    if sign == b"&nbsp;":
        return b" "
    return html.unescape(sign.decode("ascii")).encode("utf-8")
