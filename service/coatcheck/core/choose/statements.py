"""Rates statements of failure: by class, rarity and position, with the lines that belong to them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from coatcheck.core.choose.units import Units
from coatcheck.core.choose.weights import CardWeights
from coatcheck.core.survey.lexicon import BENIGN, ENDED, FLAG_BITS, STRONG, SURE, VERDICT, WARNING, WORD, phrase_of

_SURE: Final = 5.0
_STRONG: Final = 3.0
_BARE: Final = 1.5
"""Something went wrong, in words that also have other meanings."""
_WEAK: Final = 0.8
_BENIGN: Final = 0.5
_LATE: Final = 0.6
"""How much more a statement at the end is worth than one at the beginning."""
_AROUND: Final = {-2: 0.3, -1: 0.5, 0: 1.0, 1: 0.6, 2: 0.45, 3: 0.3, 4: 0.2}
"""Shares of a statement's worth that it and the lines above and below it get."""
_ENDED: Final = {-4: 0.1, -3: 0.2, -2: 0.3, -1: 0.5, 0: 1.0}
"""Shares around a statement that something ended with a failing status: nothing below it belongs to it."""
_SAME: Final = 0.25
"""By how much the number of statements that state the same, in different words, lowers their worth, as an exponent."""
_HEADING: Final = 0.5
"""Share of a statement's worth that a line above gets under which it stands: one with less indentation, or a place."""
_INDENTED: Final = 60
"""Maximum units between an indented statement and the line with less indentation."""
_PLACED: Final = 5
"""Maximum units between a statement and the place."""
_PLACE: Final = re.compile(rb"^\S.*\d\W*:\s*$")
"""Matches a line that is a place and a colon: `drift.f90:18:11:`."""
CODE: Final = re.compile(
    rb"[;{}]\s*$|^\s*(?:def|class|import|from|return|if|elif|else|for|while|try|except|catch|finally|raise|throw|assert"
    rb"|func|fn|const|let|var|public|private|static|self|this|#include|//|/\*|\*)\b"
    rb"|^\s*(?:[})\]]|/[/*]|\*/?\s)|^\s+[\w.]+\(.*\)[;:,]?\s*$|. \| .* \| "
)
"""Matches lines of source, and rows of columns, which say nothing about the run that printed them."""
_BEGINS: Final = re.compile(
    rb"(?i)(?:\s*\"[^\"]*\": ?|[^\s:]+: ?(?:\d+[:.] ?)*)?[^\w\s]{0,4} ?"
    rb"(?:error|(?:\w+_)?failed|fatal|panic|fail(?:ure)?|critical|traceback|exception in|not ok"
    rb"|[\w.]+(?-i:Error|Exception))\b|[^\s:]+\.\w+:\d+:(?:\d+:)? "
)
"""Matches lines that begin with a failure, at most after a name and a position, as programs print them."""


def _weight(flags: int) -> float:
    """Returns a statement's worth before its rarity and position are considered."""
    if flags & SURE:
        worth = _SURE
    elif flags & STRONG:
        worth = _STRONG if flags & WORD else _BARE
    else:
        worth = _WEAK if flags & (WORD | WARNING | VERDICT) else 0.0
    return worth * _BENIGN if flags & BENIGN else worth


def add_statements(
    base: dict[int, float],
    units: Units,
    flags: dict[int, int],
    weights: CardWeights,
    printed: CardWeights,
    lines: int,
) -> None:
    """Adds the worth of statements; those that begin a line as a program prints them are weighted as `printed`."""
    sure = [place for place, stated in flags.items() if stated & SURE and not stated & BENIGN]
    surest = {*sure[:1], *sure[-1:]}
    same = Counter(stated >> FLAG_BITS for stated in flags.values())
    headings = _headings(units) if any(units.text[place][:1].isspace() for place in flags) else {}
    placed = dict(_placed(units, flags))
    for place, stated in flags.items():
        line = units.text[place]
        mine = printed if stated & SURE and _BEGINS.match(line) and not CODE.search(line) else weights
        worth = _weight(stated) * max(mine.statements, mine.surest if place in surest else 0.0)
        if worth:
            alike = units.count[units.shape[place]] ** 0.5 * same[stated >> FLAG_BITS] ** _SAME
            worth *= (1 + _LATE * units.line[place] / lines) / alike
            for step, share in (_ENDED if stated & ENDED and not phrase_of(line, SURE) else _AROUND).items():
                if 0 <= place + step < len(units):
                    base[place + step] = max(base.get(place + step, 0.0), worth * share)
            for found in (headings, placed):
                if place in found:
                    base[found[place]] = max(base.get(found[place], 0.0), worth * _HEADING)


def _placed(units: Units, places: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yields units, each with the nearest one above that is a place and a colon: `drift.f90:18:11:`."""
    for place in places:
        for above in range(place - 1, max(-1, place - _PLACED - 1), -1):
            if _PLACE.search(units.text[above]):
                yield place, above
                break


def _headings(units: Units) -> dict[int, int]:
    """Returns the nearest unit above with less indentation, for each unit that has one near enough."""
    found: dict[int, int] = {}
    outer: list[tuple[int, int]] = []
    for place, text in enumerate(units.text):
        bare = text.lstrip()
        if bare:
            indent = len(text) - len(bare)
            while outer and outer[-1][0] >= indent:
                outer.pop()
            if outer and place - outer[-1][1] <= _INDENTED:
                found[place] = outer[-1][1]
            outer.append((indent, place))
    return found
