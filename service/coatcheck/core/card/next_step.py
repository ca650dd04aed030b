"""Describes the most important omissions of a card, and suggests the one call that is most likely to help."""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import fsum
from typing import Final, final

from coatcheck.core.card.model import CardInput, NextCall, Omission
from coatcheck.core.choose.select import Selection
from coatcheck.core.choose.units import Units
from coatcheck.core.choose.worth import OUTCOME, Worth
from coatcheck.core.text.lexicon import BENIGN, STRONG, SURE, WARNING, classify, words_of
from coatcheck.core.text.scan import rows_with
from coatcheck.core.views.window import LineExtent
from coatcheck_client.contract.inert import one_line
from coatcheck_client.contract.tools import DEFAULT_MATCHES

TOOL: Final = "read_artifact"
_PAGE: Final = 80
"""Number of lines of the parts that are compared with one another by their worth."""
_ROOM: Final = 600
"""Approximate tokens of the answer to a call: as many as a card has."""
_MATCH: Final = 5
"""Approximate number of lines that a search shows for one match, with its context."""
_FEWEST: Final = 3
"""Minimum number of matches that a call requests."""
_SEVERAL_VALUES: Final = re.compile(r"\[\?|\*")
"""Matches the parts of a JSONPath that may select several values."""
_PAGE_OF_LIST: Final = re.compile(r"\[[1-9]\d*:\d+\]$")
"""Matches a JSONPath to elements in the middle of a list."""
_NEAR_BEGINNING: Final = 0.1
"""Share of a text, from its beginning: a search that would begin there begins with the first line instead."""
_MIN_LINES: Final = 10
"""Minimum number of lines, and maximum number of values, that a call requests."""
_NAMED: Final = 3
"""Maximum number of phrases of statements for which a card says how many lines have them."""
_CANDIDATE_WORDS: Final = 12
"""Number of the most frequent phrases, among which the phrases that a card mentions are chosen."""
_SEVERAL: Final = 5
"""Minimum number of lines that must have a phrase for it to be reported, unless the phrase states a sure failure."""
_LIKE: Final = 10
"""Minimum number of similar lines that are reported."""
_SHARE: Final = 0.2
"""Minimum share of the left-out units that similar lines must make up to be reported."""
CLASSES: Final = (SURE, STRONG, WARNING)
"""Classes of statements, gravest first."""


@final
class ShownUnits:
    """The units of a text that a card shows, all or a selection, and what is important in the rest."""

    def __init__(self, units: Units, selection: Selection | None = None) -> None:
        """Takes all units of a text, and the selection of the units that are shown; None: all are shown."""
        self.units = units
        self._selection = selection
        self._words: dict[int, list[bytes]] = {}
        """Phrases of the statements of each class; collected on demand."""

    @property
    def whole(self) -> bool:
        """Whether all units are shown."""
        return self._selection is None

    @property
    def positions(self) -> list[int]:
        """Numbers of the units that are shown."""
        return list(range(len(self.units))) if self._selection is None else self._selection.positions

    @property
    def singular(self) -> list[int]:
        """Line numbers of shown units that answer the query or have an odd word, most valuable first."""
        if self._selection is None:
            return []
        worth = self._selection.worth
        exempt = [place for place in self.positions if place in worth.exempt]
        return [self.units.line[place] for place in sorted(exempt, key=lambda place: -worth.base.get(place, 0.0))]

    def extend(self, tokens: int) -> bool:
        """Adds units of up to `tokens` tokens to those shown; returns False if nothing more fits."""
        return self._selection is not None and self._selection.extend(tokens)

    def drop(self, tokens: int) -> bool:
        """Removes units of about `tokens` tokens from those shown; returns False if nothing is left."""
        return self._selection is not None and self._selection.drop(tokens)

    @property
    def is_outcome(self) -> bool:
        """Whether the statements of the text make it the outcome of a run, rather than a document."""
        return self._selection is not None and self._selection.worth.weights is OUTCOME

    def rest(self, classes: Sequence[int]) -> tuple[tuple[str, int] | None, str]:
        """Returns a phrase to search for in the left-out units, if any, and a note on how many lines have such phrases.

        The phrases are those of the commonest statements of the first of `classes` that occurs in the left-out units.
        If the text states a sure failure, shown or not, lesser statements are not reported. In a text without sure
        failures, a phrase is reported if at least _SEVERAL lines have it.

        The phrase to search for comes with a line to start from. It must state a sure failure, and it must be in more
        new lines that are left out than in lines that are shown. A line is new if it resembles no shown line.
        """
        if self._selection is None:
            return None, ""
        lines, shown_positions = self.units.line, set(self._selection.positions)
        shown_lines = {lines[place] for place in shown_positions}
        omitted = sorted(set(range(len(lines))) - shown_positions)
        failed = any(flags & (SURE | BENIGN) == SURE for flags in self._selection.worth.flags.values())
        block = b""
        sought: tuple[str, int] | None = None
        mentions: list[tuple[str, int, int]] = []
        for statement_class in classes[:1] if failed else classes:
            if statement_class not in self._words:
                self._words[statement_class] = _words(self.units, self._selection.worth, statement_class)
            if words := self._words[statement_class]:
                block = block or b"\n".join([self.units.text[place] for place in omitted])
                mentions = self._find_mentions(statement_class, words, block, omitted, shown_lines)
            if mentions:
                if statement_class == SURE:
                    sought = next(((words, line) for words, _, line in mentions if line), None)
                break
        counts = [f"{count} with {words}" for words, count, _ in mentions if count]
        return sought, ", ".join([*counts, *self._like(omitted)])

    def _like(self, omitted: list[int]) -> list[str]:
        """Returns a note on how many left-out lines differ from a shown line only in numbers, if these are many."""
        units = self.units
        lines_by_shape = {units.shape[place]: units.line[place] for place in reversed(self.positions)}
        lines = Counter([units.shape[place] for place in omitted if units.opens[place] and units.closes[place]])
        count, shape = max(((lines[shape], shape) for shape in lines_by_shape.keys() & lines.keys()), default=(0, b""))
        return [f"{count} like line {lines_by_shape[shape]}"] if count >= max(_LIKE, _SHARE * len(omitted)) else []

    def _find_mentions(
        self, statement_class: int, phrases: list[bytes], block: bytes, omitted: list[int], shown_lines: set[int]
    ) -> list[tuple[str, int, int]]:
        """Returns those of a class's `phrases` that occur in left-out units, commonest first.

        `block` is the text of the left-out units, one line per unit. Each phrase comes with the number of left-out
        lines that contain it, and the first new line that contains it. The number is 0 if only the left-out part of a
        shown line contains the phrase; the line is 0 unless the new lines outnumber the shown ones. Phrases that state
        nothing in most lines, like the name of an element or `0 failed`, are left out.
        """
        units = self.units
        shown_shapes = {units.shape[place] for place in self.positions}
        counts: list[tuple[int, str, int]] = []
        for words in phrases:
            rows = rows_with(words, block)
            shapes = Counter([units.shape[omitted[row]] for row in rows])
            texts = {units.shape[omitted[row]]: units.text[omitted[row]] for row in rows}
            statement_shapes = {
                shape for shape, text in texts.items() if classify(text) & (statement_class | BENIGN) == statement_class
            }
            if (
                2 * sum(shapes[shape] for shape in statement_shapes)
                >= len(rows)
                >= (1 if statement_class == SURE else _SEVERAL)
            ):
                count = len({units.line[omitted[row]] for row in rows} - shown_lines)
                new = {place for row in rows if units.shape[place := omitted[row]] in statement_shapes - shown_shapes}
                shown_count = sum(words in units.text[place] for place in self.positions)
                line = units.line[min(new)] if len({units.shape[place] for place in new}) > shown_count else 0
                counts.append((-count, one_line(words.decode("utf-8", "replace")), line))
        return [(words, -count, line) for count, words, line in sorted(counts)[:_NAMED]]

    def richest(self, *, with_topics: bool) -> LineExtent | None:
        """Returns the most valuable range of left-out lines, within one page; None if no line has any worth."""
        if self._selection is None:
            return None
        lines, positions, values = self.units.line, self.positions, self._selection.unseen(with_topics=with_topics)
        shown_lines = {lines[place] for place in positions}
        pages: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for place in sorted(values):
            if lines[place] not in shown_lines:
                pages[bisect_left(positions, place), lines[place] // _PAGE].append(place)
        best = max(pages.values(), key=lambda page: fsum(map(values.__getitem__, page)), default=None)
        return None if best is None else LineExtent(lines[best[0]], lines[best[-1]])

    def line_start(self, offset: int) -> int | None:
        """Returns the start of the line that continues at `offset`, the end of a shown unit; None if it is unknown."""
        units = self.units
        place = bisect_left(units.end, offset)
        if place == len(units) or units.end[place] != offset or units.closes[place]:
            return None
        first = units.opening(place)
        return None if first is None else units.start[first]


def _words(units: Units, worth: Worth, statement_class: int) -> list[bytes]:
    """Returns the phrases of a class's statements, most frequent first; none if the text is no outcome.

    Failures are then merely the subject of the text.
    """
    if worth.weights is not OUTCOME:
        return []
    counts = Counter[bytes]()
    for place, flags in worth.flags.items():
        if flags & (statement_class | BENIGN) == statement_class:
            counts[words_of(units.text[place], statement_class)] += units.count[units.shape[place]]
    del counts[b""]
    return [words for words, _ in counts.most_common(_CANDIDATE_WORDS)]


def next_call(
    inputs: CardInput,
    shown_units: ShownUnits | None,
    omitted: list[Omission],
    words: tuple[str, int] | None,
    section: tuple[str, int, int] | None,
) -> NextCall | None:
    """Returns the call that helps most: a search for the commonest left-out failure, or a part to read.

    Returns None if the text is the outcome of a run and has neither `words` nor a path, or if everything that is left
    out resembles what is shown.

    Args:
        inputs: the input of the card.
        shown_units: the units that the card shows; None: it shows none.
        omitted: the ranges that no excerpt shows; not empty.
        words: a phrase of statements in these ranges, and the first new line that has it.
        section: the title of a part that is not shown in full, its first line that is not shown (0: read it by its
            title), and how many lines follow from there.
    """
    longest = max(omitted, key=lambda gap: (gap.whole_lines, gap.bytes.end - gap.bytes.start))
    arguments: dict[str, str | int]
    path = inputs.facts.path
    if path is not None and _PAGE_OF_LIST.search(path) and shown_units is not None and shown_units.positions:
        path = None  # any page of the list resembles the elements that are shown
    room = max(1, _ROOM * inputs.sizes.lines // max(1, inputs.sizes.tokens.count))
    if words is not None:
        matches = max(_FEWEST, room // _MATCH)
        sought, first = words
        start = {"offset": first} if first > max(1, _NEAR_BEGINNING * inputs.sizes.lines) else {}
        arguments = {"pattern": sought, **start, **({"limit": matches} if matches < DEFAULT_MATCHES else {})}
    elif shown_units is not None and shown_units.is_outcome and path is None:
        return None
    elif section is not None:
        (title, first, lines), most = section, max(room, _MIN_LINES)
        limit = {"limit": most} if most < lines <= inputs.sizes.lines else {}
        arguments = {"offset": first, "limit": min(lines, most)} if first else {"section": title, **limit}
    elif path is not None:
        arguments = {"path": path, **({"limit": _MIN_LINES} if _SEVERAL_VALUES.search(path) else {})}
    elif longest.whole_lines:
        prose = inputs.facts.document or inputs.spec.prose
        extent = _lines(longest, shown_units, room, inputs.sizes.lines, with_topics=prose)
        if extent is None:
            return None
        arguments = {"offset": extent.first, "limit": extent.last - extent.first + 1}
    else:
        start = None if shown_units is None else shown_units.line_start(longest.bytes.start)
        inside = 0 if start is None else longest.bytes.start - start
        arguments = {"offset": f"{longest.lines.first}+{inside}" if inside else longest.lines.first}
    return NextCall(TOOL, {"artifact_id": inputs.id, **arguments})


def _lines(
    longest: Omission, shown_units: ShownUnits | None, room: int, lines: int, *, with_topics: bool
) -> LineExtent | None:
    """Returns up to `room` lines to read: the most valuable, or the first if nothing is shown; None if none has worth.

    `with_topics` is for prose only: which lines of a list have words of their own is a matter of chance.
    """
    if shown_units is None:
        return LineExtent(longest.lines.first, min(longest.lines.last, longest.lines.first + room - 1))
    rich, room = shown_units.richest(with_topics=with_topics), max(room, _MIN_LINES)
    if rich is None:
        return None
    return LineExtent(rich.first, min(max(rich.last, rich.first + _MIN_LINES - 1), rich.first + room - 1, lines))
