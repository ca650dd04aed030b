"""Values that recur: those of a column or a member that has few different ones, like a status or a level."""

from collections import Counter
from typing import Final

_VALUES: Final = 6
"""Maximum different values."""
_EACH: Final = 4
"""Minimum average number of times that a value occurs."""
_CHARS: Final = 40
"""Maximum characters of a value."""
MOST: Final = _VALUES + 1
"""Different values from which nothing more needs to be counted."""


def few_values(counts: Counter[str], records: int) -> tuple[tuple[str, int], ...]:
    """Returns values with their counts, most frequent first; none if they do not recur, or are not those of most."""
    total = counts.total()
    few = 1 < len(counts) <= _VALUES and len(counts) * _EACH <= total and total * 2 > records
    if not few or any(len(value) > _CHARS for value in counts):
        return ()
    return tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
