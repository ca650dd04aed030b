"""Rates which units of a text answer a query: BM25 over units, each raised by its best neighbour.

It works on bytes with `find`, so that only units with a word of the query cost anything.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from itertools import accumulate
from math import log
from typing import Final

from coatcheck.core.choose.units import Units
from coatcheck.core.passages.terms import terms_of
from coatcheck.core.text.lexicon import WORD, classify

_WORD: Final = re.compile(r"\w+")
_RUNS: Final = frozenset(
    {"build", "make", "test", "pass", "job", "run", "step", "task", "command", "pipeline", "suite"}
    | {"cause", "caus", "root", "reason", "happen", "issu", "fix"}
)
"""Stems of words for a run, and for asking why it ended as it did."""
_PREFIX: Final = 4
"""Minimum characters of a word that its other forms must begin with."""
_FEW: Final = 20
"""Units of a text in which even a word that most of them have counts."""
_K1: Final = 0.6
"""Saturation of BM25 (its k1, usually 1.2): lower, because a line that repeats a word is hardly a better answer."""
_REACH: Final = 8
"""Units on either side whose scores raise a unit's."""
_NEIGHBOUR: Final = 0.7
"""Share of a unit's score that the next one gets; it falls to nothing beyond _REACH. Chosen, not measured."""


def answers(units: Units, query: str, *, outcome: bool, document: bool) -> dict[int, float]:
    """Returns units that answer a query, by number, scored from 0 to 1; the best one has 1.

    In an outcome, words that only name failing and what failed are ignored: every line of a run may contain them, and
    statements of failure answer such a question without it. A question of only such words is ignored for whatever a
    program printed; a document may be about them.
    """
    text = units.block.lower()
    starts = list(accumulate([len(line) + 1 for line in units.text], initial=0))
    terms = {term.text: term.stem for term in terms_of(query).terms}
    terms.update((word, word) for word in _WORD.findall(query.lower()) if word not in terms and not word.isascii())
    telling = {word: stem for word, stem in terms.items() if not _is_common(word, stem)}
    if outcome or not (telling or document):
        terms = telling
    scores: defaultdict[int, float] = defaultdict(float)
    total = max(1, len(units))
    for word, stem in terms.items():
        hits = _hits(text, starts, word, stem)
        if 2 * len(hits) > total > _FEW:  # it tells no unit from others
            continue
        rarity = log(1 + (total - len(hits) + 0.5) / (len(hits) + 0.5))
        for place, count in hits.items():
            scores[place] += rarity * count * (_K1 + 1) / (count + _K1)
    return _lift_neighbours(scores, total) if scores else {}


def _is_common(word: str, stem: str) -> bool:
    """Returns whether a word names failing, or a run and the asking about it."""
    return stem in _RUNS or classify(word.encode()) & WORD > 0


def _hits(text: bytes, starts: list[int], word: str, form: str) -> Counter[int]:
    """Returns how often each unit has a word, or another form of it, which begins with `form`."""
    stem, exact = form.encode(), word.encode()
    hits: Counter[int] = Counter()
    at = text.find(stem)
    while at >= 0:
        if not at or not _is_letter(text[at - 1]):
            place = bisect_right(starts, at) - 1
            end = at + len(exact)
            same = text.startswith(exact, at) and (end >= len(text) or not _is_letter(text[end]))
            if same or len(form) >= _PREFIX or not text[at : at + 1].isascii():
                hits[place] += 1
        at = text.find(stem, at + len(stem))
    return hits


def _is_letter(byte: int) -> bool:
    return 0x61 <= byte <= 0x7A or 0x30 <= byte <= 0x39  # noqa: PLR2004 - a to z and digits; the text is lower case


def _lift_neighbours(scores: dict[int, float], total: int) -> dict[int, float]:
    """Adds to each unit a share of its best neighbour's score, decreasing with distance."""
    lifted: dict[int, float] = {}
    for place, score in scores.items():
        for step in range(-_REACH, _REACH + 1):
            near = place + step
            if step and 0 <= near < total:
                share = _NEIGHBOUR * score * (1 - abs(step) / (_REACH + 1)) * (1.0 if near in scores else 0.5)
                lifted[near] = max(lifted.get(near, 0.0), share)
    sums = {place: scores.get(place, 0.0) + lifted.get(place, 0.0) for place in {*scores, *lifted}}
    top = max(sums.values())
    return {place: score / top for place, score in sums.items()}
