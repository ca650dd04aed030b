"""A reader with one rule for everybody: what is shown, then a search for one word, then reading from there on.

Only Python's own library is needed: it also runs in an environment that has nothing of this project.
"""

import re
from dataclasses import dataclass
from typing import Final

LINES: Final = 100
"""In one read."""
_BEFORE: Final = 5
_PATIENCE: Final = 40
"""Answers after which it gives up."""


@dataclass(frozen=True)
class Search:
    """Look for a word."""

    word: str


@dataclass(frozen=True)
class Read:
    """Read LINES lines."""

    first: int
    """Counted from 1."""


def next_step(seen: list[str], word: str, answer: str, hit: re.Pattern[str]) -> Search | Read | None:
    """Returns what the reader does next; None when it has the answer, or gives up.

    Args:
        seen: everything that it was shown until now, in order; what it was shown first, then answers.
        word: what it looks for.
        answer: what it needs to see, literally.
        hit: finds the number of a line in the answer to a search, as its first group.
    """
    if len(seen) > _PATIENCE or any(answer in text for text in seen):
        return None
    if len(seen) == 1:
        return Search(word)
    found = hit.search(seen[1])
    if found is None:
        return Read((len(seen) - 2) * LINES + 1)
    if len(seen) == 2:
        return Read(max(int(found[1]) - _BEFORE, 1))
    return Read((len(seen) - 3) * LINES + 1)
