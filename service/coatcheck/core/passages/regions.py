"""Computes what each term is worth in a document, and which parts of it are worth a closer look.

Both follow from positions alone, on a grid of cells; no text is needed. A rare term is worth more than a frequent one,
several together more than their sum.
"""

import math
from typing import Final

import numpy as np
from msgspec import Struct

from coatcheck.core.passages.scan import Hits
from coatcheck.core.passages.terms import Term
from coatcheck.core.views.window import Extent

CELL: Final = 512
"""Bytes within which terms count as together, and as one occurrence each."""
MAX_REGIONS: Final = 48
"""Maximum number of parts: as many as the largest answer has windows."""
AROUND: Final = 768
"""Bytes before and after the best cells that belong to a part, for whole sentences and their neighbours."""
WHOLE: Final = 128 * 1024
"""Maximum bytes of a document that is one part."""
_NEIGHBOUR: Final = 0.5
_TOGETHER: Final = 0.2


class TermWeights(Struct, frozen=True):
    """The weight of each term, by its number: 0 for absent ones."""

    each: tuple[float, ...]
    missing: tuple[int, ...]


def weigh(hits: Hits, terms: tuple[Term, ...]) -> TermWeights:
    """Returns the weight of each term: its own, times its rarity in the document (as in BM25)."""
    cells = max(1, -(-hits.end // CELL))
    pairs = np.unique(hits.terms * cells + hits.at // CELL)
    counts = np.bincount(pairs // cells, minlength=len(terms)).astype(np.float64)
    counts[list(hits.everywhere)] = cells / 2
    rarity = np.log1p((cells - counts + 0.5) / (counts + 0.5))
    each = tuple(t.weight * float(r) if c else 0.0 for t, r, c in zip(terms, rarity, counts, strict=True))
    return TermWeights(each, tuple(number for number, count in enumerate(counts) if not count))


def coverage(hits: Hits, weights: TermWeights, terms: tuple[Term, ...]) -> float:
    """Returns how much of a query the best place has: the weight of its terms there over the weight of all, 0 to 1.

    A term that is absent would be rare. Parts of words and the whole phrase do not count beside the words.
    """
    cells = max(1, -(-hits.end // CELL))
    rarest = math.log1p((cells + 0.5) / 0.5)
    absent = set(weights.missing)
    each = np.array(
        [
            0.0
            if term.role in {"part", "phrase"}
            else term.weight * rarest
            if number in absent
            else weights.each[number]
            for number, term in enumerate(terms)
        ]
    )
    if not each.sum():
        return 0.0
    common = np.isin(np.arange(len(terms)), list(hits.everywhere))
    hit_cells = hits.at // CELL
    pairs = np.unique(np.concatenate([hit_cells, hit_cells - 1]) * len(terms) + np.tile(hits.terms, 2))
    pairs = pairs[~common[pairs % len(terms)]]
    starts, inverse = np.unique(pairs // len(terms), return_inverse=True)
    best = np.bincount(inverse, weights=each[pairs % len(terms)]).max() if len(starts) else 0.0
    return float((best + each[common].sum()) / each.sum())


def regions(hits: Hits, weights: TermWeights, size: int) -> list[Extent]:
    """Returns at most MAX_REGIONS disjoint parts that may contain the best answers, in order.

    A document of at most WHOLE bytes is one part.
    """
    if not len(hits.at):
        return []
    if size <= WHOLE:
        return [Extent(0, size)]
    place, score = _scores(hits, weights)
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
    for cell in sorted(best_cells):
        start, end = max(0, cell * CELL - AROUND), min(size, (cell + 1) * CELL + AROUND)
        if out and start <= out[-1].end:
            out[-1] = Extent(out[-1].start, end)
        else:
            out.append(Extent(start, end))
    return out


def _scores(hits: Hits, weights: TermWeights) -> tuple[np.ndarray, np.ndarray]:
    """Returns cells with hits, and how well each, with its neighbours, answers."""
    count = len(weights.each)
    pairs = np.unique(hits.at // CELL * count + hits.terms)
    place, inverse = np.unique(pairs // count, return_inverse=True)
    each = np.array(weights.each)
    own = np.bincount(inverse, weights=each[pairs % count], minlength=len(place))
    own *= 1 + _TOGETHER * (np.bincount(inverse, minlength=len(place)) - 1)
    score = own.copy()
    adjacent = np.flatnonzero(np.diff(place) == 1)
    score[adjacent] += _NEIGHBOUR * own[adjacent + 1]
    score[adjacent + 1] += _NEIGHBOUR * own[adjacent]
    return place, score
