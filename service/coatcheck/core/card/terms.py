"""Places of the sample that answer a query, for cards that are cut with a question in mind.

The ranking is that of query windows (`core/windows`), over what a card may look at. It decides no budget.
"""

from itertools import pairwise
from typing import Final

from coatcheck.core.artifact import Sample
from coatcheck.core.kinds.cutter import Spot
from coatcheck.core.window import Place
from coatcheck.core.windows import Part, Ranking, Rated, Scanner, Terms, Weights, regions, terms_of, weigh

_SPOTS: Final = 8
_REACH: Final = 480
"""Bytes that a spot goes on to, in whole units."""
_BEFORE: Final = 160
"""Bytes of a unit that is shown because it stands before."""
_FLOOR: Final = 0.2
"""Of the best score: what answers less well is left to the kind."""


def spots_for(query: str, sample: Sample) -> tuple[Spot, ...]:
    """Ranges that answer a query, best first; each lies in the head or in the tail, and none overlaps another."""
    data = sample.head + sample.tail
    asked = terms_of(query)
    weights, scanner = _weights(asked, data)
    seam, gap = len(sample.head), sample.size - len(data)
    parts: list[Part] = []
    for extent in regions(scanner.hits(), weights, len(data)):
        edges = (extent.start, seam, extent.end) if extent.start < seam < extent.end else (extent.start, extent.end)
        for start, end in pairwise(edges):
            parts.append(Part(Place(start if start < seam else start + gap, 0, 0), data[start:end]))
    return tuple(_spots(Ranking(asked.terms, weights).of_parts(parts, page=False)))


def _weights(asked: Terms, data: bytes) -> tuple[Weights, Scanner]:
    scanner = Scanner(asked.terms)
    scanner.feed(data, last=True)
    return weigh(scanner.hits(), asked.terms), scanner


def _spots(rated: list[Rated]) -> list[Spot]:
    """The best units with what follows them, and with the one before if it is short."""
    order = sorted((n for n, unit in enumerate(rated) if unit.score > 0), key=lambda n: (-rated[n].score, n))
    out: list[Spot] = []
    for place in order:
        if len(out) == _SPOTS or rated[place].score < _FLOOR * rated[order[0]].score:
            break
        first, last = place, place
        if place and _adjacent(rated, place) and rated[place - 1].end - rated[place - 1].start <= _BEFORE:
            first -= 1
        while (
            last + 1 < len(rated) and _adjacent(rated, last + 1) and rated[last + 1].end - rated[first].start <= _REACH
        ):
            last += 1
        spot = Spot(rated[first].start, rated[last].end)
        if not any(spot.start < other.end and other.start < spot.end for other in out):
            out.append(spot)
    return out


def _adjacent(rated: list[Rated], place: int) -> bool:
    return rated[place - 1].part == rated[place].part
