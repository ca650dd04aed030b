"""Resolves requested byte ranges of a representation to those that are sent (RFC 9110 section 14.1.2)."""

from msgspec import Struct


class FromTo(Struct, frozen=True):
    """An int-range: from a first byte to a last byte (inclusive), or to the end."""

    first: int
    last: int | None


class Suffix(Struct, frozen=True):
    """A suffix-range: the last `length` bytes."""

    length: int


RangeSpec = FromTo | Suffix


class HttpByteRange(Struct, frozen=True, order=True):
    """A half-open, non-empty range of bytes that the representation has."""

    start: int
    end: int


def resolve(specs: list[RangeSpec], size: int) -> list[HttpByteRange]:
    """Returns the satisfiable ranges, in the requested order, merging those that overlap or touch.

    Merging limits hostile sets: the answer is never longer than the representation. Empty: nothing is satisfiable.
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
