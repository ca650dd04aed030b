"""Rates statements of failure by class, rarity and position, and the lines around them that belong to them."""

import re
from bisect import bisect_left
from collections import Counter
from math import exp
from typing import Final

from coatcheck.core.choose.units import Units
from coatcheck.core.text.lexicon import BENIGN, ENDED, FLAG_BITS, GRAVE, STRONG, SURE, VERDICT, WARNING, WORD, words_of

_GRAVE: Final = 8.0
"""Worth of a statement with which a program or kernel reports that it broke. On the scale of all worths, the best
answer to a query has 10."""
_SURE: Final = 5.0
"""Worth of a sure failure: more than the end of an outcome, which has 3."""
_STRONG: Final = 3.0
"""Worth of a statement that names a failure and says that something went wrong."""
_BARE: Final = 1.5
"""Worth of a statement that something went wrong, in words that also have other meanings."""
_WEAK: Final = 0.8
"""Worth of a line that has only a word of failure, a warning or a verdict; nearness to an end adds to it."""
_BENIGN: Final = 0.5
"""Share of its worth that a statement keeps if the line denies the failure, or mentions it as an option or a file."""
_NEAR: Final = 2.0
"""Gain of a statement just above a failed end, as a multiple of its worth. Logs of CI improve by 3 points with it."""
_NEAR_LINES: Final = 200
"""Number of lines above a failed end over which the gain `_NEAR` falls to a third."""
_FAILED_ENDS: Final = 2
"""Maximum failed ends above which statements are worth more: the last step, and a step that led to its failure."""
_CLOSE: Final = 5
"""Maximum distance in units between failed ends that pass on the same status."""
_AROUND: Final = {-2: 0.3, -1: 0.5, 0: 1.0, 1: 0.6, 2: 0.45, 3: 0.3, 4: 0.2}
"""Shares of a statement's worth that the unit itself and the units above (negative) and below it get."""
_ENDED: Final = {-4: 0.1, -3: 0.2, -2: 0.3, -1: 0.5, 0: 1.0}
"""Shares of the worth of a statement that a step failed, for the statement's own unit and the units above. The units
below belong to the next step."""
_SAME: Final = 0.25
"""The worth of statements that say the same in different words is divided by their number, raised to this power."""
CODE: Final = re.compile(
    rb"[;{}]\s*$|^\s*(?:def|class|import|from|return|if|elif|else|for|while|try|except|catch|finally|raise|throw|assert"
    rb"|func|fn|const|let|var|public|private|static|self|this|#include|//|/\*|\*)\b"
    rb"|^\s*(?:[})\]]|/[/*]|\*/?\s)|^\s+[\w.]+\(.*\)[;:,]?\s*$|. \| .* \| "
)
"""Matches lines of source and rows of tables, which say nothing about the run that printed them."""
_BEGINS: Final = re.compile(
    rb"(?i)(?:\s*\"[^\"]*\": ?|[^\s:]+: ?(?:\d+[:.] ?)*)?[^\w\s]{0,4} ?"
    rb"(?:error|(?:\w+_)?failed|fatal|panic|fail(?:ure)?|critical|traceback|exception in|not ok"
    rb"|[\w.]+(?-i:Error|Exception))\b|[^\s:]+\.\w+:\d+:(?:\d+:)? "
)
"""Matches lines that begin with a failure as programs print it, possibly after a name and a position."""


def _weight(flags: int) -> float:
    """Returns a statement's worth by its class, regardless of rarity and position."""
    if flags & SURE:
        worth = _GRAVE if flags & GRAVE else _SURE
    elif flags & STRONG:
        worth = _STRONG if flags & WORD else _BARE
    else:
        worth = _WEAK if flags & (WORD | WARNING | VERDICT) else 0.0
    return worth * _BENIGN if flags & BENIGN else worth


def begins_with_failure(line: bytes) -> bool:
    """Returns whether a line begins with a failure as programs print it."""
    return _BEGINS.match(line) is not None


def find_failed_ends(units: Units, flags: dict[int, int]) -> list[int]:
    """Returns the last units, at most two, that state that something ended with a status of failure.

    Of several such units close together, which pass on the same status, only the last one counts. A statement in the
    last _CLOSE units of the text does not count.
    """
    ends: list[int] = []
    below = len(units)
    for place in sorted((place for place, unit_flags in flags.items() if unit_flags & ENDED), reverse=True):
        if below - place > _CLOSE:
            ends.append(place)
        below = place
    return ends[:_FAILED_ENDS]


def add_statements(
    base: dict[int, float], units: Units, flags: dict[int, int], scale: float, lines: int, ends: list[int]
) -> None:
    """Adds the worth of statements, times `scale`: the nearer the next failed end below, the more.

    The failed ends are those in `ends` and the end of the text, which has `lines` lines.
    """
    same = Counter(unit_flags >> FLAG_BITS for unit_flags in flags.values())
    below = [*sorted(units.line[place] for place in ends), lines]
    for place, bits in flags.items():
        worth = _weight(bits) * scale
        if worth:
            line = units.line[place]
            distance = below[bisect_left(below, line, hi=len(ends))] - line
            alike = units.count[units.shape[place]] ** 0.5 * same[bits >> FLAG_BITS] ** _SAME
            worth *= (1 + _NEAR * exp(-distance / _NEAR_LINES)) / alike
            ended = bits & ENDED and not words_of(units.text[place], SURE)
            for step, share in (_ENDED if ended else _AROUND).items():
                if 0 <= place + step < len(units):
                    base[place + step] = max(base.get(place + step, 0.0), worth * share)
