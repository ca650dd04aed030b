"""Spans and windows: a span is the range that a caller requests, a window is the part of it that exists.

Lines count from 1; bytes, characters and tokens from 0. A line ends only with LF. Every byte except
0x80 to 0xBF starts a character (`Measure` has the same rules). The module also resolves byte ranges of HTTP (RFC 9110
section 14.1.2). Pure arithmetic.
"""

from bisect import bisect_right
from typing import Literal

import numpy as np
from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck_client.contract.quotations import Extent as Extent  # noqa: PLC0414 - re-exported

Unit = Literal["line", "char", "byte", "token"]

NUMBER_LIMIT = 2**53 - 1
"""Largest number that JSON represents exactly. No payload has as many bytes, so that a larger limit means no limit."""

_FIRST_BYTES = -64
"""Smallest signed byte that starts a character: UTF-8 continuation bytes (0x80 to 0xBF) are below -64."""
_SHORT = 4_000
"""Size in bytes below which counting is faster without a NumPy array."""
_CONTINUATIONS = 3
"""Maximum bytes that follow the first byte of a UTF-8 sequence."""


class Span(Struct, frozen=True):
    """The requested range: `limit` units from `offset` on. A limit of None means up to the end."""

    unit: Unit
    offset: int
    limit: int | None

    @property
    def first(self) -> int:
        """The unit's first offset: 1 for lines, otherwise 0."""
        return 1 if self.unit == "line" else 0


def span(unit: Unit, offset: int | None, limit: int | None) -> Span:
    """Returns a checked span. An offset of None means the beginning. A limit above NUMBER_LIMIT means no limit.

    Raises:
        CoatcheckError: `invalid_request` for an offset below the unit's first one, or a limit below 1.
    """
    first = 1 if unit == "line" else 0
    if offset is not None and offset < first:
        numbering = "Lines count from 1" if first else f"{unit.capitalize()}s count from 0"
        raise CoatcheckError(Code.INVALID_REQUEST, f"{numbering}: offset must be at least {first}.", parameter="offset")
    if limit is not None and limit < 1:
        raise CoatcheckError(
            Code.INVALID_REQUEST, "limit must be at least 1; leave it out to read to the end.", parameter="limit"
        )
    return Span(unit, first if offset is None else offset, limit if limit and limit <= NUMBER_LIMIT else None)


def past_end(requested_span: Span, artifact_id: str, total: int) -> CoatcheckError:
    """Returns the error for an offset past the end of an artifact that has `total` units."""
    offset = str(requested_span.offset) if requested_span.offset <= NUMBER_LIMIT else "given"
    last = total if requested_span.unit == "line" else total - 1
    advice = f" Use an offset from {requested_span.first} to {last}." if total else " It is empty."
    units = requested_span.unit if total == 1 else f"{requested_span.unit}s"
    return CoatcheckError(
        Code.OFFSET_PAST_END,
        f"Offset {offset} is past the end: {artifact_id} has {total} {units}.{advice}",
        unit=requested_span.unit,
        total=total,
    )


class LineExtent(Struct, frozen=True):
    """The lines with a window's first and last byte, counted from 1. An empty window has last = first - 1."""

    first: int
    last: int


class Window(Struct, frozen=True):
    """The exact part of a view that an answer shows. `bytes` is authoritative; the others describe the same part."""

    bytes: Extent
    chars: Extent
    lines: LineExtent
    tokens: Extent | None = None
    """The part's extent in tokens of the view; None unless the caller asked for tokens."""


class Position(Struct, frozen=True):
    """A byte offset, with the number of LF bytes and of characters before it."""

    byte: int
    newlines: int
    """Number of LF bytes before the offset."""
    chars: int
    """Number of characters that start before the offset."""

    def after(self, data: bytes) -> "Position":
        """Returns the position at the end of `data`, which begins at this position."""
        return Position(self.byte + len(data), self.newlines + newlines(data), self.chars + chars(data))


class LineIndex:
    """Computes several positions in one piece of bytes.

    If they are requested in ascending order, every byte is counted once.
    """

    def __init__(self, start: Position, data: bytes) -> None:
        """Takes the bytes, without counting in them yet.

        Args:
            start: the position at which `data` begins.
            data: the bytes that contain the positions.
        """
        self._start = self._last = start
        self._data = data
        self._ascii = data.isascii()

    def at(self, byte: int) -> Position:
        """Returns the position of an offset, which must be from the beginning of the bytes to their end."""
        before = self._last if byte >= self._last.byte else self._start
        low, high = before.byte - self._start.byte, byte - self._start.byte
        size = high - low if self._ascii else chars(self._data[low:high])
        self._last = Position(byte, before.newlines + newlines(self._data[low:high]), before.chars + size)
        return self._last


def window(start: Position, end: Position, *, ends_line: bool, tokens: Extent | None = None) -> Window:
    """Returns the window between two positions. `ends_line` says whether its last byte is an LF."""
    last = end.newlines if ends_line or end.byte == start.byte else end.newlines + 1
    return Window(
        bytes=Extent(start.byte, end.byte),
        chars=Extent(start.chars, end.chars),
        lines=LineExtent(start.newlines + 1, last),
        tokens=tokens,
    )


def newlines(data: bytes | memoryview) -> int:
    """Returns the number of LF bytes in `data`."""
    if isinstance(data, bytes) and len(data) < _SHORT:
        return data.count(b"\n")
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")))


def chars(data: bytes) -> int:
    """Returns the number of characters that start in `data`."""
    return len(data) if data.isascii() else int(np.count_nonzero(np.frombuffer(data, dtype=np.int8) >= _FIRST_BYTES))


def nth_newline(data: bytes, n: int) -> int:
    """Returns the offset of LF number `n` (from 0) in `data`; -1 if there are fewer."""
    offsets = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    return int(offsets[n]) if 0 <= n < len(offsets) else -1


def nth_char(data: bytes, n: int) -> int:
    """Returns the offset at which character number `n` (from 0) of `data` starts; -1 if there are fewer."""
    offsets = np.flatnonzero(np.frombuffer(data, dtype=np.int8) >= _FIRST_BYTES)
    return int(offsets[n]) if 0 <= n < len(offsets) else -1


def separates(data: bytes, at: int) -> bool:
    """Returns whether decoding `data` in two parts, split at `at`, is certain to equal decoding it as a whole.

    False inside a UTF-8 sequence, complete or not. True before every byte that is not a continuation byte, and before a
    continuation byte that belongs to no sequence. Of any four consecutive offsets, at least one is such a place,
    whatever the bytes.
    """
    if at <= 0 or at >= len(data) or not _continues(data[at]):
        return True
    for back in range(1, min(_CONTINUATIONS, at) + 1):
        octet = data[at - back]
        if not _continues(octet):
            return back >= _sequence_length(octet)
    return True


def _continues(octet: int) -> bool:
    return octet & 0xC0 == 0x80  # noqa: PLR2004 - UTF-8: 0b10xxxxxx


def _sequence_length(lead: int) -> int:
    """Returns the length of the UTF-8 sequence that a first byte announces: 1, or the number of its leading 1-bits."""
    return 1 if lead < 0x80 else 8 - (lead ^ 0xFF).bit_length()  # noqa: PLR2004 - UTF-8


def decode(data: bytes) -> str:
    """Decodes bytes as UTF-8, as a reader sees them: U+FFFD replaces invalid bytes."""
    return data.decode("utf-8", "replace")


def raw_length(data: bytes, text: str, keep: int) -> int:
    """Returns the number of bytes of `data` that the first `keep` characters of `text` (`data` decoded) represent.

    If some bytes are not UTF-8, the result is rounded down to a position at which `separates` is true.
    """
    if keep >= len(text):
        return len(data)
    if len(text) == len(data):  # every byte is a character: ASCII, or invalid bytes that are replaced one by one
        return whole_chars(data, keep)
    if text.encode() == data:
        return len(text[:keep].encode())
    positions = range(len(data) + 1)
    return whole_chars(
        data, bisect_right(positions, keep, key=lambda at: len(decode(data[: whole_chars(data, at)]))) - 1
    )


def whole_chars(data: bytes, at: int) -> int:
    """Returns the largest offset up to `at` that does not split a character of `data`."""
    while not separates(data, at):
        at -= 1
    return at


class FromTo(Struct, frozen=True):
    """An int-range of HTTP: from a first byte to a last byte (inclusive), or to the end if `last` is None."""

    first: int
    last: int | None


class Suffix(Struct, frozen=True):
    """A suffix-range of HTTP: the last `length` bytes."""

    length: int


RangeSpec = FromTo | Suffix


class HttpByteRange(Struct, frozen=True, order=True):
    """A half-open, non-empty range of bytes that exist in the representation."""

    start: int
    end: int


def resolve(specs: list[RangeSpec], size: int) -> list[HttpByteRange]:
    """Returns the satisfiable ranges, in the requested order, merging those that overlap or touch.

    Merging protects against hostile sets of ranges: the answer is never longer than the representation. The list is
    empty if no range is satisfiable.
    """
    byte_ranges = [r for spec in specs if (r := _one(spec, size)) is not None]
    order = sorted(range(len(byte_ranges)), key=lambda n: byte_ranges[n])
    merged_ranges: list[tuple[int, HttpByteRange]] = []
    for n in order:
        byte_range = byte_ranges[n]
        if merged_ranges and byte_range.start <= merged_ranges[-1][1].end:
            position, last = merged_ranges[-1]
            merged_ranges[-1] = (min(position, n), HttpByteRange(last.start, max(last.end, byte_range.end)))
        else:
            merged_ranges.append((n, byte_range))
    return [r for _, r in sorted(merged_ranges)]


def _one(spec: RangeSpec, size: int) -> HttpByteRange | None:
    if isinstance(spec, Suffix):
        return HttpByteRange(max(0, size - spec.length), size) if spec.length and size else None
    if spec.first >= size:
        return None
    return HttpByteRange(spec.first, size if spec.last is None else min(size, spec.last + 1))
