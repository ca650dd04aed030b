"""Describes the most important omissions of a card, and the one call that is most likely to help."""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import fsum
from typing import Final, cast, final

from coatcheck.core.card.model import CardInput, NextCall, Omission
from coatcheck.core.choose.select import Selection
from coatcheck.core.choose.units import Units
from coatcheck.core.choose.weights import OUTCOME
from coatcheck.core.choose.worth import Worth
from coatcheck.core.survey.lexicon import BENIGN, STRONG, SURE, WARNING, classify, words_of
from coatcheck.core.text.scan import rows_with
from coatcheck.core.views.window import LineExtent
from coatcheck_client.contract.inert import one_line

TOOL: Final = "read_artifact"
_PAGE: Final = 80
"""Lines of the next part, if nothing better than reading on is known: about a thousand tokens."""
_LEAST: Final = 10
"""Minimum lines that a call requests."""
_NAMED: Final = 3
"""Words of statements that a card counts."""
_LOOKED: Final = 12
"""Words among which these are chosen."""
_SEVERAL: Final = 5
"""Number of lines with the same words from which these are searched for, if they state no sure failure."""
_LIKE: Final = 10
"""Number of similar lines from which they are named."""
_SHARE: Final = 0.2
"""Minimum share of what is left out that similar lines must have to be named."""
_SHOWN: Final = 40
"""Characters shown of a line that represents similar ones ..."""
_ENDING: Final = 16
"""... and how many of these are its last ones: outcomes are often there."""
_LETTERS: Final = re.compile(rb"[A-Za-z\x80-\xff]")
_STAMP: Final = re.compile(rb"(?:[^\w\x80-\xff]*\d\S*\s+)+")
"""Matches dates, times and numbers at the beginning of a line, which say little about what it resembles."""
CLASSES: Final = (SURE, STRONG, WARNING)
"""Classes of statements, gravest first."""


@final
class ShownUnits:
    """What a card shows of a text, all of it or a selection, and what matters of the rest."""

    def __init__(self, units: Units, selection: Selection | None = None) -> None:
        """Takes all units of a text; without a selection, all are shown."""
        self.units = units
        self._selection = selection
        self._words: dict[int, list[bytes]] = {}
        """The words of statements of each class; found on demand."""

    @property
    def whole(self) -> bool:
        """Whether all is shown."""
        return self._selection is None

    @property
    def places(self) -> list[int]:
        """Numbers of the units that are shown."""
        return list(range(len(self.units))) if self._selection is None else self._selection.places

    @property
    def singular(self) -> list[int]:
        """Lines of shown units that answer the query or have an odd word, worth most first."""
        if self._selection is None:
            return []
        worth = self._selection.worth
        places = [place for place in self.places if place in worth.exempt]
        return [self.units.line[place] for place in sorted(places, key=lambda place: -worth.base.get(place, 0.0))]

    def drop(self, tokens: int) -> bool:
        """Shows `tokens` fewer tokens; returns False if nothing is left."""
        return self._selection is not None and self._selection.drop(tokens)

    def rest(self, classes: Sequence[int]) -> tuple[str | None, str]:
        """Returns words to search for in what is left out, if any, and what matters of it in words.

        They are of the commonest statements of the first of `classes` that has any there. Beside a sure failure, shown
        or not, lesser ones are noise; of others there must be several.
        """
        if self._selection is None:
            return None, ""
        lines, shown = self.units.line, set(self._selection.places)
        begun = {lines[place] for place in shown}
        left = sorted(set(range(len(lines))) - shown)
        failed = any(flags & (SURE | BENIGN) == SURE for flags in self._selection.worth.flags.values())
        block = b""
        named: list[tuple[str, int]] = []
        for stated in classes[:1] if failed else classes:
            if words := self._said(stated):
                block = block or b"\n".join([self.units.text[place] for place in left])
                named = self._named(stated, words, block, left, begun)
            if named:
                break
        told = [f"{count} with {words}" for words, count in named if count]
        return named[0][0] if named else None, ", ".join([*told, *self._like(left)])

    def _said(self, stated: int) -> list[bytes]:
        if stated not in self._words:
            self._words[stated] = _words(self.units, cast("Selection", self._selection).worth, stated)
        return self._words[stated]

    def _named(
        self, stated: int, said: list[bytes], block: bytes, left: list[int], begun: set[int]
    ) -> list[tuple[str, int]]:
        """Returns those words of statements of a class that are in the units that are left out, commonest first.

        `block` is the text of these units, a line for each.

        Each has the number of left-out lines that contain them; 0: only a part of a line that is shown does. Of words
        that state nothing in most lines, like the name of an element or `0 failed`, nothing is said.
        """
        units = self.units
        counts: list[tuple[int, str]] = []
        for words in said:
            rows = rows_with(words, block)
            shapes = Counter([units.shape[left[row]] for row in rows])
            texts = {units.shape[left[row]]: units.text[left[row]] for row in rows}
            meant = sum(shapes[shape] for shape, text in texts.items() if classify(text) & (stated | BENIGN) == stated)
            if 2 * meant >= len(rows) >= (1 if stated == SURE else _SEVERAL):
                counts.append((-len({units.line[left[row]] for row in rows} - begun), _told(words)))
        return [(words, -count) for count, words in sorted(counts)[:_NAMED]]

    def _like(self, left: list[int]) -> list[str]:
        """Returns how many lines differ from one only in digits, with how that begins, dates aside, and how it ends."""
        units = self.units
        lines = Counter([units.shape[place] for place in left if units.opens[place] and units.closes[place]])
        least = max(_LIKE, _SHARE * len(left))
        many = [(count, shape) for shape, count in lines.items() if count >= least and _LETTERS.search(shape)]
        if not many:
            return []
        count, shape = max(many)
        line = next(units.text[place] for place in left if units.shape[place] == shape)
        stamp = _STAMP.match(line)
        example = _told(line[stamp.end() if stamp and _LETTERS.search(line, stamp.end()) else 0 :])
        if len(example) > _SHOWN:
            example = f"{example[: _SHOWN - _ENDING - 1]}…{example[-_ENDING:]}"
        return [f"{count} like “{example}”"]

    def richest(self) -> LineExtent | None:
        """Returns the lines that say most, none of them shown, and no more than one call requests; None if none do."""
        if self._selection is None:
            return None
        lines, places, values = self.units.line, self.places, self._selection.unseen()
        begun = {lines[place] for place in places}
        pages: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for place in sorted(values):
            if lines[place] not in begun:
                pages[bisect_left(places, place), lines[place] // _PAGE].append(place)
        best = max(pages.values(), key=lambda page: fsum(map(values.__getitem__, page)), default=None)
        return None if best is None else LineExtent(lines[best[0]], lines[best[-1]])

    def line_start(self, offset: int) -> int | None:
        """Returns where the line begins that continues at `offset`, the end of a shown unit; None if unknown."""
        units = self.units
        place = bisect_left(units.end, offset)
        if place == len(units) or units.end[place] != offset or units.closes[place]:
            return None
        first = units.opening(place)
        return None if first is None else units.start[first]


def _words(units: Units, worth: Worth, stated: int) -> list[bytes]:
    """Returns the words of statements of a class, most frequent first; none in a document, which only tells of them."""
    if worth.weights is not OUTCOME:
        return []
    counts = Counter[bytes]()
    for place, flags in worth.flags.items():
        if flags & (stated | BENIGN) == stated:
            counts[words_of(units.text[place], stated)] += units.count[units.shape[place]]
    del counts[b""]
    return [words for words, _ in counts.most_common(_LOOKED)]


def _told(text: bytes) -> str:
    return one_line(text.decode("utf-8", "replace"))


def next_call(
    inputs: CardInput, shown: ShownUnits | None, omitted: list[Omission], words: str | None, section: str | None
) -> NextCall:
    """Returns the call that helps most: the commonest failure left out, a section, a path, lines.

    Args:
        inputs: what the card is made of.
        shown: what it shows; None: nothing.
        omitted: what no excerpt shows; not empty.
        words: words of statements in that.
        section: a title of a part that is not shown.
    """
    longest = max(omitted, key=lambda gap: (gap.whole_lines, gap.bytes.end - gap.bytes.start))
    arguments: dict[str, str | int]
    if words is not None:
        arguments = {"pattern": words}
    elif section is not None:
        arguments = {"section": section}
    elif inputs.facts.path is not None:
        arguments = {"path": inputs.facts.path}
    elif longest.whole_lines:
        first, limit = _lines(longest, shown, inputs.sizes.lines)
        arguments = {"offset": first} if inputs.brief or inputs.text is not None else {"offset": first, "limit": limit}
    else:
        start = None if shown is None else shown.line_start(longest.bytes.start)
        inside = 0 if start is None else longest.bytes.start - start
        arguments = {"offset": f"{longest.lines.first}+{inside}" if inside else longest.lines.first}
    return NextCall(TOOL, {"artifact_id": inputs.id, **arguments})


def _lines(longest: Omission, shown: ShownUnits | None, lines: int) -> tuple[int, int]:
    """Returns the first line to read and how many: those that say most, or the first of the longest gap."""
    rich = None if shown is None else shown.richest()
    if rich is not None:
        return rich.first, max(rich.last, min(rich.first + _LEAST - 1, lines)) - rich.first + 1
    whole = longest.whole_lines == longest.lines.last - longest.lines.first + 1
    first = longest.lines.first if whole else min(longest.lines.first + 1, longest.lines.last)
    return first, min(_PAGE, longest.whole_lines)
