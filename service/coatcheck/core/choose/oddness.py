"""Finds lines that differ from nearly all others: by their shape, or by a number among similar lines."""

import re
from collections import Counter
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coatcheck.core.choose.units import Units

_OTHERS: Final = 13
"""Minimum similar lines that all have the same number where a few have another."""
_FEW: Final = 2
_NUMBERS: Final = 24
"""Numbers of a line that are compared."""
_DIFFERING: Final = 8
"""Maximum such lines in a text; if there are more, none is odd."""
_MANY: Final = 60
_ALIKE: Final = 10
"""Lines per shape from which a line with a shape of its own is odd."""
_LETTERS: Final = b"abcdefABCDEF"
"""Hexadecimal digits that shapes have."""
_NUMBERS_ONLY: Final = bytes(c if c in b"0123456789\n" else 0x20 for c in range(256))
_FRACTION: Final = re.compile(rb"\d\.")
_ZERO: Final = ord("0")


def odd_lines(units: Units) -> list[int]:
    """Returns lines that resemble no other, if nearly all lines resemble others; or few, hexadecimal digits aside."""
    if len(units) < _MANY:
        return []
    shapes, counts, most = units.shape, units.count, len(units)
    if len(counts) * _ALIKE > len(units):
        if len(set(_without_letters(shapes[:: len(units) // _MANY]))) * 2 > _MANY:  # cheap, and true of most texts
            return []
        shapes, most = _without_letters(shapes), _DIFFERING
        counts = Counter(shapes)
    odd = [place for place, shape in enumerate(shapes) if counts[shape] == 1 and shape.strip()]
    return odd if len(counts) * _ALIKE <= len(units) and len(odd) <= most else []


def _without_letters(shapes: list[bytes]) -> list[bytes]:
    return b"\n".join(shapes).translate(None, _LETTERS).split(b"\n")


def odd_numbers(units: Units) -> list[int]:
    """Returns lines with another number than nearly all similar lines, like `ready 2/3` among many `ready 3/3`."""
    if max(units.count.values(), default=0) <= _OTHERS:
        return []
    groups: dict[bytes, list[int]] = {}
    for place, shape in enumerate(units.shape):
        if units.count[shape] > _OTHERS and units.opens[place] and units.closes[place]:
            groups.setdefault(shape, []).append(place)
    odd: set[int] = set()
    for places in groups.values():
        numbers = _table([units.text[place] for place in places]) if len(places) > _OTHERS else None
        for column in () if numbers is None else numbers.T:
            differing = np.flatnonzero(column != np.median(column)).tolist()
            odd.update(places[row] for row in differing if len(differing) <= _FEW)
    return sorted(odd) if len(odd) <= _DIFFERING else []


def _table(lines: list[bytes]) -> NDArray[np.int64] | None:
    """Returns the numbers of lines of one shape, without fractions; None if the lines do not have equally many."""
    block = b"\n".join(lines)
    digits = np.frombuffer(block, np.uint8) - _ZERO < 10  # noqa: PLR2004 - modulo 256
    begins = np.flatnonzero(digits[1:] & ~digits[:-1]) + 1
    begins = np.append(0, begins) if digits[0] else begins
    counts = np.diff(begins.searchsorted([0, *accumulate([len(line) + 1 for line in lines])]))
    if not counts[0] or (counts != counts[0]).any():
        return None
    found = enumerate(begins[: counts[0]].tolist())
    first = [at for at, begin in found if begin < 2 or not _FRACTION.match(block, begin - 2)]  # noqa: PLR2004
    numbers = np.fromstring(block.translate(_NUMBERS_ONLY).decode(), np.int64, sep=" ").reshape(len(lines), -1)
    return numbers[:, first[:_NUMBERS]]
