"""Finds the licence that a text begins with, past which it says what it is."""

import re
from typing import Final

from coatcheck.core.choose.units import Units
from coatcheck.core.text.scan import BlockPattern

_LOOKED: Final = 60
"""Lines at the beginning among which a licence is searched for."""
_MOST: Final = 0.5
"""Maximum share of a text that is its licence; a text of more, or one whose licence goes on, is about it."""
_LICENCE: Final = BlockPattern(
    r"copyright|\(c\) (?:19|20)|\blicen[cs]e|SPDX-|all rights reserved|\bwarrant|redistribut|permission is hereby",
    ignore_case=True,
)
_LETTERS: Final = re.compile(rb"[A-Za-z\x80-\xff]{2}")


def licence_lines(units: Units) -> set[int]:
    """Returns the lines of the licence that a text begins with, whole paragraphs of it, and what is between them.

    What the first paragraph says before the licence belongs to the text.
    """
    text = units.text[:_LOOKED]
    rows = set(_LICENCE.rows(b"\n".join(text)))
    if not rows:
        return rows
    paragraphs: list[list[int]] = []
    for place in (place for place, line in enumerate(text) if _LETTERS.search(line)):
        if not paragraphs or paragraphs[-1][-1] != place - 1:
            paragraphs.append([])
        paragraphs[-1].append(place)
    numbers: set[int] = set()
    for nth, paragraph in enumerate(paragraphs):
        licensed = [place for place in paragraph if place in rows]
        if licensed:
            numbers.update(paragraph if nth else paragraph[paragraph.index(licensed[0]) :])
    between = range(min(numbers, default=0), max(numbers, default=0))
    numbers.update(place for place in between if not _LETTERS.search(text[place]))
    goes_on = any(place in numbers for lines in paragraphs[-1:] for place in lines)
    return set() if goes_on or len(numbers) > _MOST * len(units) else numbers
