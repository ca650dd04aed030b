"""Rates how well each sentence or line answers a query: BM25 over the document itself, including the surroundings.

A whole word counts more than an inflected form, that more than a longer word, and that more than the inside of one. A
term that only a neighbour has counts in part, so that an answer is found whose subject is in the sentence before. A
unit near a good one is rated higher, and a unit that only repeats an earlier one is not rated for its own sake. Hidden
text counts little.
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Final, cast, final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from coatcheck.core.parts.blobs import blank_unseen
from coatcheck.core.passages.regions import EXACT_WEIGHT, Floats, TermWeights, worth_at
from coatcheck.core.passages.scan import NONE, Ints, TermFinder
from coatcheck.core.passages.terms import Term
from coatcheck.core.passages.units import lines_of, markup, units
from coatcheck.core.views.window import Position

_SATURATION: Final = 1.2
"""BM25's k1: how little further occurrences of a term add. As for all weights here, the value is the best of a few on
the questions of docs/measurements.md (Passages); others moved the result by at most 2 points."""
_LENGTH_NORM: Final = 0.6
"""BM25's b: how much less a hit in a long unit counts."""
_NEIGHBOUR_WEIGHTS: Final = (0.5, 0.3, 0.15)
"""Weight of a term that is one unit away, or two, or three. Without it, the answers on those questions lose 14
points."""
_REACH_UNITS: Final = 8
"""Number of units within which a good one raises others, the less the farther away."""
_LATE_SHARE: Final = 1 / 3
"""How much less the end of a ranked list counts than its beginning."""
_GAP: Final = max(len(_NEIGHBOUR_WEIGHTS), _REACH_UNITS)
_LENT_SHARE: Final = 0.5
"""Maximum share of the best nearby unit's score that is added; half as much if a unit has no term itself."""
_REPEATED_BYTES: Final = 32
"""Bytes from which a unit that occurred before is a repetition; shorter ones are headings and the like."""
_FURTHER_TERM_SHARE: Final = 0.2
"""How much each further term adds to the sum."""
_OTHER_FORMS_WEIGHT: Final = 0.9
"""Total weight of forms other than the word itself, however many: less than that of the word."""
_HIDDEN_WEIGHT: Final = 0.1
"""Weight of what is in a tag or a script."""
_SEPARATOR_BYTES: Final = 2
"""Line ends between unrelated texts: no word and no pair of words continues across them."""
_MIN_UNIT_BYTES: Final = 80
"""Bytes: shorter units are not rated better for being shorter."""
_MAX_HITS: Final = 64
"""Maximum hits examined in one unit; more of the same would change nothing."""

ByteRanges = list[tuple[int, int]]
"""Consecutive ranges of bytes: units, or what is hidden."""


class DocumentPart(Struct, frozen=True):
    """Some of a document's bytes, and their position."""

    place: Position
    data: bytes


class RatedUnit(Struct, frozen=True):
    """A unit and its rating. `part` is the number of its part; `hit` is where its first term begins."""

    start: int
    end: int
    score: float
    part: int
    hit: int


class _Columns:
    """The units of some parts side by side, with a gap after each part that nothing reaches across."""

    def __init__(self, datas: list[bytes], part_ranges: list[ByteRanges]) -> None:
        self.starts = [0, *accumulate(len(each) + _GAP for each in part_ranges)]
        """The first column of each part; at the end, the number of columns."""
        self.size = np.zeros(self.starts[-1])
        """Bytes of each unit."""
        self.average = np.ones(self.starts[-1])
        """Average bytes of a unit in its part."""
        self.first = np.zeros(self.starts[-1], dtype=np.int64)
        """Where in its part a unit begins."""
        for start, data, each in zip(self.starts, datas, part_ranges, strict=False):
            if each:
                own = slice(start, start + len(each))
                bounds = np.array(each, dtype=np.int64)
                self.first[own] = bounds[:, 0]
                self.size[own] = bounds[:, 1] - bounds[:, 0]
                self.average[own] = max(_MIN_UNIT_BYTES, len(data) / len(each))

    def of(self, part: int) -> slice:
        """Returns the columns of a part."""
        return slice(self.starts[part], self.starts[part + 1] - _GAP)


class _Hits(Struct, frozen=True):
    """Hits that count: column, position in the part, term, and its worth there."""

    column: Ints
    at: Ints
    term: Ints
    worth: Floats


def earlier_first(rated_units: list[RatedUnit], size: int) -> list[RatedUnit]:
    """Returns the units of a document of `size` bytes that its sender ranked: the earlier, the higher rated."""
    return [
        structs.replace(unit, score=unit.score * (1 - _LATE_SHARE * unit.start / max(1, size))) for unit in rated_units
    ]


@final
class Ranking:
    """Rates the units of parts of one document. Pure, but not thread-safe."""

    def __init__(self, terms: tuple[Term, ...], weights: TermWeights) -> None:
        self._terms = terms
        self._weights = np.array(weights.each)[:, None]
        self._finder = TermFinder(terms, frozenset(weights.missing))

    def of_parts(
        self, parts: list[DocumentPart], *, page: bool, to_visible: Callable[[bytes], bytes] | None = None
    ) -> list[RatedUnit]:
        """Returns every unit of the parts, in order. `page`: they are HTML, of which readers see the text.

        With `to_visible`, which returns lines as a reader takes them, each at its place and of its size, lines are
        units.
        """
        datas = [(to_visible or blank_unseen)(part.data) for part in parts]
        part_ranges = [units(data, 0) if to_visible is None else lines_of(data) for data in datas]
        columns = _Columns(datas, part_ranges)
        hits = self._hits(datas, part_ranges, columns)
        # Worth of each term in each unit; repetitions lose theirs before anything is shared with neighbours.
        each = self._each(_discount_markup(hits, datas, columns) if page else hits, columns)
        each[:, _find_repeats(np.asarray(each.any(axis=0), dtype=np.bool_), datas, part_ranges, columns)] = 0.0
        scores = _share_scores(_together(_with_neighbours(each)))
        # A passage that must be cut begins at the unit's first hit.
        fresh = np.flatnonzero(np.diff(hits.column, prepend=-1))
        first = columns.first.copy()
        first[hits.column[fresh]] = hits.at[fresh]
        rated_units: list[RatedUnit] = []
        for number, (part, each_place) in enumerate(zip(parts, part_ranges, strict=True)):
            base, own = part.place.byte, columns.of(number)
            rated_units += [
                RatedUnit(base + start, base + end, score, number, base + hit)
                for (start, end), score, hit in zip(each_place, scores[own].tolist(), first[own].tolist(), strict=True)
            ]
        return rated_units

    def of_texts_apart(self, texts: list[str]) -> list[float]:
        """Returns how well each of several unrelated texts answers."""
        pieces: list[bytes] = []
        ranges: ByteRanges = []
        at = 0
        for text in texts:
            pieces.append(text.encode("utf-8", "replace"))
            ranges.append((at, at + len(pieces[-1]) + 1))
            at += len(pieces[-1]) + _SEPARATOR_BYTES
        if not ranges:
            return []
        data = (b"\n" * _SEPARATOR_BYTES).join(pieces) + b"\n" * _SEPARATOR_BYTES
        columns = _Columns([data], [ranges])
        scores = _together(self._each(self._hits([data], [ranges], columns), columns))
        return cast("list[float]", scores[columns.of(0)].tolist())

    def _each(self, hits: _Hits, columns: _Columns) -> Floats:
        """Returns the worth of each term in each unit: a row per term, a column per unit."""
        width = columns.starts[-1]
        shape = len(self._terms), width
        cells = hits.term * width + hits.column
        times = np.bincount(cells, weights=hits.worth, minlength=shape[0] * width).reshape(shape)
        exact = np.zeros(shape[0] * width, dtype=np.bool_)
        exact[cells[hits.worth == EXACT_WEIGHT]] = True
        count = np.where(exact.reshape(shape), times, np.minimum(times, _OTHER_FORMS_WEIGHT))
        length = 1 - _LENGTH_NORM + _LENGTH_NORM * np.maximum(columns.size, _MIN_UNIT_BYTES) / columns.average
        return self._weights * count * (_SATURATION + 1) / (count + _SATURATION * length)

    def _hits(self, datas: list[bytes], part_ranges: list[ByteRanges], columns: _Columns) -> _Hits:
        """Returns the hits that count, in order within each unit; not all of them if a unit has very many."""
        hit_groups = [
            self._hits_of(data, ranges, start)
            for data, ranges, start in zip(datas, part_ranges, columns.starts, strict=False)
            if ranges
        ]
        if not hit_groups:
            return _Hits(NONE, NONE, NONE, np.zeros(0))
        return _Hits(*map(np.concatenate, zip(*map(structs.astuple, hit_groups), strict=True)))

    def _hits_of(self, data: bytes, ranges: ByteRanges, start: int) -> _Hits:
        """Returns the hits in a part, whose first unit has column `start`."""
        out: list[tuple[int, int, int, float]] = []
        at, unit, hits = 0, 0, 0
        while (hit := self._finder.next(data, at)) is not None:
            place, numbers = hit
            if place >= ranges[unit][1]:
                unit, hits = bisect_right(ranges, (place, len(data) + 1), unit) - 1, 0
            for number in numbers:
                worth = worth_at(data, place, self._terms[number])
                if worth:
                    out.append((start + unit, place, number, worth))
            hits += 1
            at = place + 1 if hits < _MAX_HITS else ranges[unit][1]
        rows = np.array([each[:3] for each in out], dtype=np.int64).reshape(-1, 3)
        return _Hits(rows[:, 0], rows[:, 1], rows[:, 2], np.array([each[3] for each in out], dtype=np.float64))


def _discount_markup(hits: _Hits, datas: list[bytes], columns: _Columns) -> _Hits:
    """Returns hits on a page, with little worth for those in markup."""
    worth = hits.worth.copy()
    for part, data in enumerate(datas):
        hidden = np.array(markup(data), dtype=np.int64).reshape(-1, 2)
        own = columns.of(part)
        mine = np.flatnonzero((hits.column >= own.start) & (hits.column < own.stop))
        nth = np.searchsorted(hidden[:, 0], hits.at[mine], side="right") - 1
        mine, nth = mine[nth >= 0], nth[nth >= 0]
        worth[mine[hits.at[mine] < hidden[nth, 1]]] *= _HIDDEN_WEIGHT
    return structs.replace(hits, worth=worth)


def _together(best: Floats) -> Floats:
    """Returns the sum of each unit's terms, higher the more terms there are."""
    total = np.zeros(best.shape[1])
    for row in best:  # sequentially: a sum in another order could differ on another machine
        total += row
    scores: Floats = total * (1 + _FURTHER_TERM_SHARE * np.maximum(np.count_nonzero(best, axis=0) - 1, 0))
    return scores


def _find_repeats(
    has_hits: npt.NDArray[np.bool_], datas: list[bytes], part_ranges: list[ByteRanges], columns: _Columns
) -> list[int]:
    """Returns the columns of rated units whose exact text occurred in an earlier unit."""
    earlier_texts: set[bytes] = set()
    out: list[int] = []
    for start, data, each in zip(columns.starts, datas, part_ranges, strict=False):
        # The first occurrence stays; a header that every page repeats would fill the answer.
        for nth in np.flatnonzero(has_hits[start : start + len(each)]).tolist():
            first, end = each[nth]
            if end - first >= _REPEATED_BYTES:
                text = data[first:end]
                if text in earlier_texts:
                    out.append(start + nth)
                earlier_texts.add(text)
    return out


def _share_scores(scores: Floats) -> Floats:
    """Returns scores including what the best nearby unit adds to each."""
    best = np.zeros(len(scores))
    for far in range(1, _REACH_UNITS + 1):
        share = 1 - far / (_REACH_UNITS + 1)
        np.maximum(best[far:], share * scores[:-far], out=best[far:])
        np.maximum(best[:-far], share * scores[far:], out=best[:-far])
    shared: Floats = scores + _LENT_SHARE * best * np.where(scores > 0, 1.0, 0.5)
    return shared


def _with_neighbours(each: Floats) -> Floats:
    """Returns the worth of each term in or near each unit."""
    best = each.copy()
    for far, share in enumerate(_NEIGHBOUR_WEIGHTS, 1):
        np.maximum(best[:, far:], share * each[:, :-far], out=best[:, far:])
        np.maximum(best[:, :-far], share * each[:, far:], out=best[:, :-far])
    return best
