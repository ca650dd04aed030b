"""A part of a payload for display: text in which the parts that a card shows are marked. Its size is bounded."""

import codecs
from typing import Final

from msgspec import Struct

from coatcheck.core.card.model import Card
from coatcheck.core.views.hexdump import ROW, hex_row
from coatcheck.reading.view import ViewReading

PART: Final = 48 * 1024
"""Bytes shown at once."""
HEX_PART: Final = 256 * ROW
_CHAR: Final = 4
"""Bytes of the longest UTF-8 character."""


class PayloadPiece(Struct, frozen=True):
    """A piece of the text, and whether the card shows it."""

    text: str
    shown: bool
    anchor: int | None = None
    """Number of the excerpt that begins here, counted from 1."""


class PayloadPart(Struct, frozen=True, kw_only=True):
    """The part of a payload that is shown, and its position."""

    pieces: list[PayloadPiece]
    start: int
    end: int
    size: int
    hexadecimal: bool = False

    @property
    def before(self) -> int | None:
        """Returns where the previous part begins; None at the beginning."""
        return None if self.start == 0 else max(0, self.start - (HEX_PART if self.hexadecimal else PART))


async def part_of(reading: ViewReading, card: Card, start: int) -> PayloadPart:
    """Returns the part of a view that begins at `start`, or at the start of the character there."""
    size = reading.content.size
    start = min(max(start, 0), max(size - 1, 0))
    if reading.binary:
        start -= start % ROW
        data = await reading.read(start, start + HEX_PART)
        return PayloadPart(
            pieces=[PayloadPiece(_dump(data, start), shown=False)],
            start=start,
            end=start + len(data),
            size=size,
            hexadecimal=True,
        )
    low = max(0, start - _CHAR)
    data = await reading.read(low, start + PART + _CHAR)
    first, last = _align(data, start - low), _align(data, start - low + PART)
    start, data = low + first, data[first:last]
    pieces: list[PayloadPiece] = []
    at = 0
    for number, excerpt in enumerate(sorted(card.excerpts, key=lambda each: each.bytes.start), 1):
        a, b = max(excerpt.bytes.start - start, at), min(excerpt.bytes.end - start, len(data))
        if excerpt.view != reading.view or a >= b:
            continue
        anchor = number if excerpt.bytes.start >= start else None
        pieces += [
            PayloadPiece(_text(reading, data[at:a]), shown=False),
            PayloadPiece(_text(reading, data[a:b]), True, anchor),
        ]
        at = b
    pieces.append(PayloadPiece(_text(reading, data[at:]), shown=False))
    visible_pieces = [piece for piece in pieces if piece.text]
    return PayloadPart(pieces=visible_pieces, start=start, end=start + len(data), size=size)


def _align(data: bytes, at: int) -> int:
    """Returns the start of the character that a byte belongs to, at most three bytes back."""
    if at >= len(data):
        return len(data)
    back = at
    while back > max(0, at - _CHAR) and data[back] & 0xC0 == 0x80:  # noqa: PLR2004 - a byte inside a character
        back -= 1
    return back


def _text(reading: ViewReading, data: bytes) -> str:
    text = codecs.decode(data, "utf-8", "replace")
    return text if reading.mask is None else reading.mask.reveal(text)


def _dump(data: bytes, start: int) -> str:
    return "".join(hex_row(data[at : at + ROW], start + at) for at in range(0, len(data), ROW))
