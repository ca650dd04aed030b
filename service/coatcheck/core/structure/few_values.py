"""Values that recur: those of a column or a member that has few different ones, like a status or a level.

Others recur too, but are many, like the rules that findings break: of these, the most frequent lead.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final, TypeVar

from coatcheck.core.text.plural import first_of

T = TypeVar("T")

VALUES: Final = 6
"""Maximum different values."""
_EACH: Final = 4
"""Minimum average number of times that a value occurs."""
_CHARS: Final = 40
"""Maximum characters of a value."""
MOST: Final = VALUES + 1
"""Different values from which nothing more needs to be counted."""
LONGEST: Final = 200
"""Maximum characters of any of many values."""
_LEADS: Final = 2
"""How many times the average the most frequent of many values occurs at least."""
_BLANKS: Final = 2
"""Maximum average number of blanks in many texts; sentences have more."""
_NAMED: Final = 8
_NAMED_CHARS: Final = 300
"""Maximum number, and characters, of the most frequent values that are named."""


def few_values(counts: Counter[str], records: int) -> tuple[tuple[str, int], ...]:
    """Returns few short values with their counts, most frequent first; none if they are many, or do not lead."""
    if len(counts) > VALUES or not leads(counts, records) or any(len(each) > _CHARS for each in counts):
        return ()
    return tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def leads(counts: Counter[T], records: int) -> bool:
    """Returns whether the most frequent values are worth naming: all of a few, or those that lead many texts.

    Of many numbers, none leads: they are sizes or places.
    """
    total = counts.total()
    if len(counts) < 2 or len(counts) * _EACH > total or total * 4 <= records:  # noqa: PLR2004 - of one, none leads
        return False
    if len(counts) <= VALUES:
        return not any(isinstance(each, str) and len(each) > LONGEST for each in counts)
    texts = [each for each in counts if isinstance(each, str) and len(each) <= LONGEST]
    if len(texts) < len(counts) or sum(each.count(" ") for each in texts) > _BLANKS * len(texts):
        return False
    return max(counts.values()) * len(counts) >= _LEADS * total


def leading(counts: Mapping[str, int]) -> str:
    """Returns the most frequent values with their counts, and how many more values there are."""
    named = [f"{value} {count}" for value, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))]
    chars = most = 0
    for each in named[:_NAMED]:
        chars += len(each)
        most += not most or chars <= _NAMED_CHARS
    return first_of(named, most, "more values", separator=", ")
