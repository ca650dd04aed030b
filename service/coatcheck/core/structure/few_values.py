"""Values that recur: those of a column or a member that has few different ones, like a status or a level."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeVar

T = TypeVar("T")

VALUES: Final = 6
"""Maximum different values."""
_EACH: Final = 4
"""Minimum average number of times that a value occurs."""
CHARS: Final = 40
"""Maximum characters of a value."""
MOST: Final = VALUES + 1
"""Different values from which nothing more needs to be counted."""


def are_few(counts: Counter[T], records: int, texts: Iterable[str]) -> bool:
    """Returns whether values recur, given how often each occurs in `records`, and the values as they are written.

    They do if they are few and short, most records have one, and each occurs several times on average.
    """
    few = len(counts) <= VALUES and len(counts) * _EACH <= counts.total() and counts.total() * 2 > records
    return few and all(len(text) <= CHARS for text in texts)


def few_values(counts: Counter[str], records: int) -> tuple[tuple[str, int], ...]:
    """Returns values with their counts, most frequent first; none if they do not recur, or there is only one."""
    if len(counts) < 2 or not are_few(counts, records, counts):  # noqa: PLR2004 - one value distinguishes nothing
        return ()
    return tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
