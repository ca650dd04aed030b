"""Rates how well the units of a text answer a query: by BM25, and by the score of the best neighbour.

It searches bytes with `find`, so that only units with a word of the query cost time.
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
"""Stems of words that name a run, or that ask why it ended as it did."""
_PREFIX: Final = 4
"""Minimum characters of a stem by which other forms of a word are found."""
_FEW: Final = 20
"""Maximum units of a text in which every word of the query counts. In a longer text, a word that more than half of the
units contain is ignored."""
_K1: Final = 0.6
"""BM25's k1, usually 1.2: lower here, because a line that repeats a word is hardly a better answer."""
_REACH: Final = 8
"""Distance in units within which the score of a unit raises others."""
_NEIGHBOUR: Final = 0.7
"""Share of a unit's score that a neighbour would get at distance 0. The share falls to nothing beyond _REACH, and is
halved for a neighbour without a word of the query. Chosen, not measured."""


def answers(units: Units, query: str, *, outcome: bool, document: bool) -> dict[int, float]:
    """Returns the units that answer a query, by number, with scores up to 1, which the best unit has.

    In an outcome, words that only name a failure or a run are ignored: every line of a run may contain them, and
    statements of failure answer such a question anyway. If the query has no other words, they are ignored in every text
    but a `document`, which may be about them.
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
        if 2 * len(hits) > total > _FEW:  # the word does not distinguish units
            continue
        rarity = log(1 + (total - len(hits) + 0.5) / (len(hits) + 0.5))
        for place, count in hits.items():
            scores[place] += rarity * count * (_K1 + 1) / (count + _K1)
    return _lift_neighbours(scores, total) if scores else {}


def _is_common(word: str, stem: str) -> bool:
    """Returns whether a word names a failure, names a run, or asks why a run failed."""
    return stem in _RUNS or classify(word.encode()) & WORD > 0


def _hits(text: bytes, starts: list[int], word: str, form: str) -> Counter[int]:
    """Returns how often each unit has a word, or another form of the word, which begins with `form`."""
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
    """Adds a share of the best neighbour's score to each score, and scales the sums so that the largest is 1."""
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
