"""Rates how well each sentence or line answers a query, by BM25 over the document itself and the units nearby.

A whole word counts more than an inflected form, an inflected form more than a longer word that begins with the term,
and such a word more than a match inside a word. A term that only a neighbouring unit contains counts in part: the
subject of an answer may be in the sentence before. A unit near a good unit is rated higher. A unit that only repeats an
earlier one gets no rating of its own. Hidden text counts little.
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
"""BM25's k1: how little further occurrences of a term add. Like all weights here, it is the best of a few values on the
questions of docs/measurements.md (Passages); the other values changed the result by at most 2 points."""
_LENGTH_NORM: Final = 0.6
"""BM25's b: how much less a hit in a long unit counts."""
_NEIGHBOUR_WEIGHTS: Final = (0.5, 0.3, 0.15)
"""Weight of a term that is one, two or three units away. Without these weights, the answers to the questions of
docs/measurements.md (Passages) lose 14 points."""
_REACH_UNITS: Final = 8
"""Distance in units up to which a good unit raises the scores of others: the closer, the more."""
_LATE_SHARE: Final = 1 / 3
"""Share of its score that a unit at the end of a ranked list loses; at the beginning it loses nothing."""
_GAP: Final = max(len(_NEIGHBOUR_WEIGHTS), _REACH_UNITS)
_LENT_SHARE: Final = 0.5
"""Maximum share of the best nearby unit's score that is added to a unit; half as much for a unit without a term."""
_REPEATED_BYTES: Final = 32
"""Minimum bytes of a unit that can be a repetition of an earlier one; shorter units are headings and the like."""
_FURTHER_TERM_SHARE: Final = 0.2
"""Share by which each further term of the query raises a unit's sum."""
_OTHER_FORMS_WEIGHT: Final = 0.9
"""Maximum total weight of all forms of a word other than the word itself: less than the weight of the word."""
_HIDDEN_WEIGHT: Final = 0.1
"""Weight of a hit in a tag or a script."""
_SEPARATOR_BYTES: Final = 2
"""Number of line ends between unrelated texts, so that no word and no pair of words continues across them."""
_MIN_UNIT_BYTES: Final = 80
"""Minimum length in bytes that a unit counts as having: shorter units are not rated better for being shorter."""
_MAX_HITS: Final = 64
"""Maximum hits examined in one unit; further hits would change nothing."""

ByteRanges = list[tuple[int, int]]
"""Consecutive ranges of bytes: units, or hidden ranges."""


class DocumentPart(Struct, frozen=True):
    """A contiguous part of a document's bytes, and its position."""

    place: Position
    data: bytes


class RatedUnit(Struct, frozen=True):
    """A unit and its rating. `part` is the index of the unit's part; `hit` is the byte where its first term begins."""

    start: int
    end: int
    score: float
    part: int
    hit: int


class _Columns:
    """The units of several parts as columns; gaps keep units of different parts from being neighbours."""

    def __init__(self, datas: list[bytes], part_ranges: list[ByteRanges]) -> None:
        self.starts = [0, *accumulate(len(each) + _GAP for each in part_ranges)]
        """The first column of each part; at the end, the number of columns."""
        self.size = np.zeros(self.starts[-1])
        """Bytes of each unit."""
        self.average = np.ones(self.starts[-1])
        """Average bytes of a unit in its part."""
        self.first = np.zeros(self.starts[-1], dtype=np.int64)
        """Start of each unit, counted from the beginning of its part."""
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
    """The hits that count, one per index: the unit's column, the position, the term, the hit's worth."""

    column: Ints
    at: Ints
    term: Ints
    worth: Floats


def earlier_first(rated_units: list[RatedUnit], size: int) -> list[RatedUnit]:
    """Returns the units of a document that its sender ranked, with scores that fall towards the document's end.

    `size` is the number of bytes in the document.
    """
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
        """Returns every unit of the parts with its rating, in order.

        Args:
            parts: the bytes to rate.
            page: whether the parts are HTML, in which hits in markup count little.
            to_visible: returns lines as a reader sees them, each with its position and size unchanged. If given, each
                line is a unit.
        """
        datas = [(to_visible or blank_unseen)(part.data) for part in parts]
        part_ranges = [units(data, 0) if to_visible is None else lines_of(data) for data in datas]
        columns = _Columns(datas, part_ranges)
        hits = self._hits(datas, part_ranges, columns)
        # The worth of each term in each unit. Repeated units lose their worth before any is shared with neighbours.
        each = self._rate_terms(_discount_markup(hits, datas, columns) if page else hits, columns)
        each[:, _find_repeats(np.asarray(each.any(axis=0), dtype=np.bool_), datas, part_ranges, columns)] = 0.0
        scores = _share_scores(_sum_terms(_spread_terms(each)))
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
        """Returns how well each of several unrelated texts answers the query."""
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
        scores = _sum_terms(self._rate_terms(self._hits([data], [ranges], columns), columns))
        return cast("list[float]", scores[columns.of(0)].tolist())

    def _rate_terms(self, hits: _Hits, columns: _Columns) -> Floats:
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
        """Returns the hits that count, in order within each unit; of a unit with very many hits, not all."""
        hit_groups = [
            self._hits_of(data, ranges, start)
            for data, ranges, start in zip(datas, part_ranges, columns.starts, strict=False)
            if ranges
        ]
        if not hit_groups:
            return _Hits(NONE, NONE, NONE, np.zeros(0))
        return _Hits(*map(np.concatenate, zip(*map(structs.astuple, hit_groups), strict=True)))

    def _hits_of(self, data: bytes, ranges: ByteRanges, start: int) -> _Hits:
        """Returns the hits in a part; the part's first unit has column `start`."""
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
    """Returns the hits on a page, with their worth reduced in markup."""
    worth = hits.worth.copy()
    for part, data in enumerate(datas):
        hidden = np.array(markup(data), dtype=np.int64).reshape(-1, 2)
        own = columns.of(part)
        part_hits = np.flatnonzero((hits.column >= own.start) & (hits.column < own.stop))
        nth = np.searchsorted(hidden[:, 0], hits.at[part_hits], side="right") - 1
        part_hits, nth = part_hits[nth >= 0], nth[nth >= 0]
        worth[part_hits[hits.at[part_hits] < hidden[nth, 1]]] *= _HIDDEN_WEIGHT
    return structs.replace(hits, worth=worth)


def _sum_terms(best: Floats) -> Floats:
    """Returns the sum of the terms' worth for each unit, raised for each further term that the unit has."""
    total = np.zeros(best.shape[1])
    for row in best:  # in order: a sum in another order could differ on another machine
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
        # The first occurrence keeps its rating; otherwise a header that every page repeats would fill the answer.
        for nth in np.flatnonzero(has_hits[start : start + len(each)]).tolist():
            first, end = each[nth]
            if end - first >= _REPEATED_BYTES:
                text = data[first:end]
                if text in earlier_texts:
                    out.append(start + nth)
                earlier_texts.add(text)
    return out


def _share_scores(scores: Floats) -> Floats:
    """Returns the scores, each raised by a share of the best nearby unit's score."""
    best = np.zeros(len(scores))
    for distance in range(1, _REACH_UNITS + 1):
        share = 1 - distance / (_REACH_UNITS + 1)
        np.maximum(best[distance:], share * scores[:-distance], out=best[distance:])
        np.maximum(best[:-distance], share * scores[distance:], out=best[:-distance])
    shared: Floats = scores + _LENT_SHARE * best * np.where(scores > 0, 1.0, 0.5)
    return shared


def _spread_terms(each: Floats) -> Floats:
    """Returns the worth of each term in each unit, or in a unit nearby, reduced by distance."""
    best = each.copy()
    for distance, share in enumerate(_NEIGHBOUR_WEIGHTS, 1):
        np.maximum(best[:, distance:], share * each[:, :-distance], out=best[:, distance:])
        np.maximum(best[:, :-distance], share * each[:, distance:], out=best[:, :-distance])
    return best
