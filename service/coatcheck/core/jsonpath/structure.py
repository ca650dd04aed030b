"""The skeleton of JSON text, block by block: brackets and commas outside strings, with their depth, and quotes.

Vectorised, some hundred MB/s, in memory of a few blocks. It checks no grammar: text that is no JSON gives marks
that fit no value, which who walks over them finds out.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

QUOTE: Final = 0x22
COMMA: Final = 0x2C
BACKSLASH: Final = 0x5C
_CASE: Final = 0x20
"""The bit in which `[` and `{` differ, and `]` and `}`."""
_OPEN: Final = 0x7B
_CLOSE: Final = 0x7D


_PIECE: Final = 262144
"""Bytes at a time, so that what is computed of them stays in the processor's cache."""
_RUN: Final = 32
"""Backslashes in a row that are counted together; a block with more is copied with blanks in place of escapes."""


class Marks:
    """What a block holds.

    Attributes:
        at: positions in the document of brackets and commas outside strings, in order.
        char: which they are.
        depth: how many containers are open behind each.
    """

    def __init__(
        self,
        at: NDArray[np.int64],
        char: NDArray[np.uint8],
        depth: NDArray[np.int32],
        quotes: list[tuple[NDArray[np.int64], NDArray[np.bool_], int]],
    ) -> None:
        self.at = at
        self.char = char
        self.depth = depth
        self._quotes = quotes

    def closes(self, depth: int) -> int:
        """The first mark behind which fewer than `depth` containers are open; as many as there are when none."""
        below = self.depth < depth
        first = int(below.argmax()) if len(below) else 0
        return first if len(below) and below[first] else len(below)

    def commas(self, depth: int, end: int) -> NDArray[np.int64]:
        """The commas at a depth, before mark number `end`."""
        return np.flatnonzero((self.depth[:end] == depth) & (self.char[:end] == COMMA))

    def strings(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The quotes of the first string behind each place, which lies in none; for as many as are whole."""
        quotes = np.concatenate([at[quote] + base for at, quote, base in self._quotes])
        first = np.searchsorted(quotes, places)
        first = first[first + 1 < len(quotes)]
        return quotes[first], quotes[first + 1]


class Structure:
    """Reads blocks that follow one another."""

    def __init__(self, depth: int = 0) -> None:
        """Begin outside strings, at a place where so many containers are open."""
        self._depth = depth
        self._odd = 0
        self._escaped = False

    def feed(self, block: bytes, base: int) -> Marks:
        """The marks of the next block, whose first byte is at position `base`."""
        at: list[NDArray[np.int64]] = []
        char: list[NDArray[np.uint8]] = []
        depth: list[NDArray[np.int32]] = []
        quotes: list[tuple[NDArray[np.int64], NDArray[np.bool_], int]] = []
        for start in range(0, len(block), _PIECE):
            piece = block[start : start + _PIECE]
            data, found, quote = self._piece(piece)
            quotes.append((found, quote, base + start))
            odd = np.cumsum(quote, dtype=np.uint8)
            odd += np.uint8(self._odd)
            odd &= 1
            if len(odd):
                self._odd = int(odd[-1])
            odd |= quote
            kept = found[odd == 0]
            chars = data[kept]
            folded = chars | _CASE
            change = (folded == _OPEN).view(np.int8) - (folded == _CLOSE).view(np.int8)
            depths = np.cumsum(change, dtype=np.int32)
            depths += np.int32(self._depth)
            if len(depths):
                self._depth = int(depths[-1])
            at.append(kept + (base + start))
            char.append(chars)
            depth.append(depths)
        if not at:
            return Marks(np.zeros(0, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.int32), [])
        return Marks(np.concatenate(at), np.concatenate(char), np.concatenate(depth), quotes)

    def _piece(self, piece: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.bool_]]:
        """The piece's bytes, where it has brackets, commas and quotes, and which of them are quotes that count."""
        if self._escaped:
            piece = b" " + piece[1:]
        self._escaped = (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1
        data = np.frombuffer(piece, np.uint8)
        slashes = b"\\" in piece
        if slashes and b"\\" * _RUN in piece:
            data, slashes = np.frombuffer(unescaped(piece)[0], np.uint8), False
        at = np.flatnonzero(_interesting(data))
        quote = data[at] == QUOTE
        if slashes:
            quote[_escaped(data, at, quote)] = False
        return data, at, quote


def _interesting(data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    folded = data | _CASE
    found = data == QUOTE
    other = data == COMMA
    found |= other
    for wanted in (_OPEN, _CLOSE):
        np.equal(folded, wanted, out=other)
        found |= other
    return found


def _escaped(data: NDArray[np.uint8], at: NDArray[np.int64], quote: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Which marks are quotes behind an odd number of backslashes."""
    numbers = np.flatnonzero(quote)
    numbers = numbers[data[np.maximum(at[numbers] - 1, 0)] == BACKSLASH]
    odd = np.ones(len(numbers), np.bool_)
    running = np.arange(len(numbers))
    back = 1
    while len(running) and back <= _RUN:
        back += 1
        before = at[numbers[running]] - back
        running = running[(before >= 0) & (data[np.maximum(before, 0)] == BACKSLASH)]
        odd[running] ^= True
    return numbers[odd]


def unescaped(block: bytes, *, escaped: bool = False) -> tuple[bytes, bool]:
    r"""The block with blanks in place of `\\` and `\"`, so that each quote that is left ends or begins a string.

    `escaped`: a backslash at the end of the block before escapes the first byte. Answers the same of the next block.
    """
    if escaped and block:
        block = b" " + block[1:]
    if b"\\" not in block:
        return block, False
    # Each run of backslashes is replaced in pairs from its beginning, so what may be left is its last.
    plain = block.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    return plain, plain.endswith(b"\\")
