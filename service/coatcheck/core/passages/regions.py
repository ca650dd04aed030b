"""Computes the worth of each term in a document and at each position, and which parts deserve a closer look.

Parts are chosen from the positions of hits alone, on a grid of cells; no text is needed. A rare term is worth more than
a frequent one, and several terms together are worth more than their sum. At a position, a term counts as the word
itself, an inflected form, the beginning of a longer word, or the inside of a word.
"""

import math
import re
from typing import Final

import numpy as np
import numpy.typing as npt
import regex
from msgspec import Struct

from coatcheck.core.passages.scan import Hits
from coatcheck.core.passages.terms import Term
from coatcheck.core.passages.units import fold
from coatcheck.core.views.window import Extent

CELL_BYTES: Final = 512
"""Bytes of a cell: terms in one cell count as being together, and repetitions in it as one occurrence."""
MAX_REGIONS: Final = 48
"""Maximum number of parts: as many as the passages of the largest answer."""
AROUND_BYTES: Final = 768
"""Bytes before and after a chosen cell that belong to its part, so that sentences and their neighbours are complete."""
WHOLE_BYTES: Final = 128 * 1024
"""Maximum bytes of a document that forms a single part."""
_NEIGHBOUR_SHARE: Final = 0.5
"""Share of its score that a cell adds to the cells before and after it: sentences cross the borders of cells."""
_FURTHER_TERM_SHARE: Final = 0.2
"""Share by which each further term raises a cell's score; the same as for units in rank.py."""


class TermWeights(Struct, frozen=True):
    """The weight of each term by its number (0 for an absent term), and the numbers of absent terms."""

    each: tuple[float, ...]
    missing: tuple[int, ...]


def weigh(hits: Hits, terms: tuple[Term, ...]) -> TermWeights:
    """Returns the weight of each term: its own weight times its rarity in the document, as in BM25."""
    cells = max(1, -(-hits.end // CELL_BYTES))
    pairs = np.unique(hits.terms * cells + hits.at // CELL_BYTES)
    counts = np.bincount(pairs // cells, minlength=len(terms)).astype(np.float64)
    counts[list(hits.everywhere)] = cells / 2
    rarity = np.log1p((cells - counts + 0.5) / (counts + 0.5))
    each = tuple(t.weight * float(r) if c else 0.0 for t, r, c in zip(terms, rarity, counts, strict=True))
    return TermWeights(each, tuple(number for number, count in enumerate(counts) if not count))


def coverage(hits: Hits, weights: TermWeights, terms: tuple[Term, ...]) -> float:
    """Returns how much of a query the best position covers, from 0 to 1, by the weight of the terms found there.

    An absent term has the weight of the rarest possible term. Parts of words are not counted in addition to the words.
    """
    cells = max(1, -(-hits.end // CELL_BYTES))
    rarest = math.log1p((cells + 0.5) / 0.5)
    absent = set(weights.missing)
    each = np.array(
        [
            0.0 if term.role == "part" else term.weight * rarest if number in absent else weights.each[number]
            for number, term in enumerate(terms)
        ]
    )
    if not each.sum():
        return 0.0
    common = np.isin(np.arange(len(terms)), list(hits.everywhere))
    # Two neighbouring cells count as one position, because an answer may lie across their border.
    hit_cells = hits.at // CELL_BYTES
    pairs = np.unique(np.concatenate([hit_cells, hit_cells - 1]) * len(terms) + np.tile(hits.terms, 2))
    pairs = pairs[~common[pairs % len(terms)]]
    starts, inverse = np.unique(pairs // len(terms), return_inverse=True)
    best = np.bincount(inverse, weights=each[pairs % len(terms)]).max() if len(starts) else 0.0
    return float((best + each[common].sum()) / each.sum())


def regions(hits: Hits, weights: TermWeights, size: int) -> list[Extent]:
    """Returns at most MAX_REGIONS disjoint parts that may contain the best answers, in order.

    A document of at most WHOLE_BYTES bytes forms a single part.
    """
    if not len(hits.at):
        return []
    if size <= WHOLE_BYTES:
        return [Extent(0, size)]
    place, score = _scores(hits, weights)
    # Eight times as many cells as needed, because the neighbours of a chosen cell are skipped.
    best = np.lexsort((place, -score))[: MAX_REGIONS * 8]
    best_cells: list[int] = []
    used_cells: set[int] = set()
    for index in best:
        cell = int(place[index])
        if cell not in used_cells:
            best_cells.append(cell)
            used_cells.update((cell - 1, cell, cell + 1))
        if len(best_cells) == MAX_REGIONS:
            break
    out: list[Extent] = []
    # Parts that touch are joined.
    for cell in sorted(best_cells):
        start, end = max(0, cell * CELL_BYTES - AROUND_BYTES), min(size, (cell + 1) * CELL_BYTES + AROUND_BYTES)
        if out and start <= out[-1].end:
            out[-1] = Extent(out[-1].start, end)
        else:
            out.append(Extent(start, end))
    return out


def _scores(hits: Hits, weights: TermWeights) -> tuple[np.ndarray, np.ndarray]:
    """Returns the cells with hits, and the score of each, including a share of its neighbours' scores."""
    count = len(weights.each)
    pairs = np.unique(hits.at // CELL_BYTES * count + hits.terms)
    place, inverse = np.unique(pairs // count, return_inverse=True)
    each = np.array(weights.each)
    own = np.bincount(inverse, weights=each[pairs % count], minlength=len(place))
    own *= 1 + _FURTHER_TERM_SHARE * (np.bincount(inverse, minlength=len(place)) - 1)
    score = own.copy()
    adjacent = np.flatnonzero(np.diff(place) == 1)
    score[adjacent] += _NEIGHBOUR_SHARE * own[adjacent + 1]
    score[adjacent + 1] += _NEIGHBOUR_SHARE * own[adjacent]
    return place, score


Floats = npt.NDArray[np.float64]

EXACT_WEIGHT: Final = 1.0
"""Weight of the word itself. Other forms have fractions of it (decision 0018), chosen on the questions of
docs/measurements.md (Passages)."""
_INFLECTED_WEIGHT: Final = 0.75
"""Weight of a word that is only a few letters longer than the term or its stem, as inflected forms are."""
_LONGER_WEIGHT: Final = 0.4
"""Weight of a longer word that begins with the stem."""
_INSIDE_WEIGHT: Final = 0.25
"""Weight of a stem inside a word."""
_PREFIXED_WEIGHT: Final = 0.6
"""Weight of a stem inside an Arabic or Hebrew word: these languages write articles and prepositions in front of it."""
_CERTAIN: Final = frozenset({"gram", "sign", "whole"})
"""Roles of terms that count in full wherever they occur."""
_ENDING_LETTERS: Final = 2
"""Number of letters that an ending may have, in the term and in an inflected form."""
_WORD_BYTES: Final = 64
"""Maximum bytes of a word that are examined."""

_CLITICS: Final = re.compile("[\u05d0-\u06ff]{3}")
_REST: Final = regex.compile(r"[\p{L}\p{M}\p{N}]*")


def worth_at(data: bytes, at: int, term: Term) -> float:
    """Returns the worth of a term whose stem begins at `at`; 0 if the term does not count there."""
    if term.role in _CERTAIN:
        return EXACT_WEIGHT
    before = data[max(0, at - 4) : at].decode("utf-8", "ignore")[-1:]
    rest = _REST.match(data[at : at + _WORD_BYTES].decode("utf-8", "ignore"))
    word = rest.group() if rest else ""
    camel = not before.isupper() and word[:1].isupper()
    if before.isalpha() and not camel:
        if _CLITICS.match(term.stem):
            return _PREFIXED_WEIGHT
        return 0.0 if term.bound else _INSIDE_WEIGHT
    plain = fold(word)
    if plain == term.text:
        return EXACT_WEIGHT
    if len(plain) <= _longest(term):
        return _INFLECTED_WEIGHT
    return 0.0 if term.bound else _LONGER_WEIGHT


def _longest(term: Term) -> int:
    """Returns the maximum number of letters in an inflected form."""
    return max(len(term.text), len(term.stem) + _ENDING_LETTERS) + _ENDING_LETTERS
