"""Finds the passages of a document that best answer a query, in any language, without an index.

`terms_of` reads the query. `PassageScanner` finds its terms in one pass over streamed content. `weigh` and `regions`
tell the worth of the terms, and which parts deserve a closer look. `Ranking` rates the sentences and lines in these
parts. `compose` shows the best of them within a budget. Pure: the same document, query and budget give the same answer.

Matching is by words, not by meaning: a passage that answers in other words is not found.
"""

from coatcheck.core.passages.choose import CONCISE, FILL
from coatcheck.core.passages.compose import Layout, Passage, PassageText, compose
from coatcheck.core.passages.rank import DocumentPart, Ranking, RatedUnit, earlier_first
from coatcheck.core.passages.regions import TermWeights, coverage, regions, weigh
from coatcheck.core.passages.scan import PassageScanner
from coatcheck.core.passages.terms import MAX_CHARS, Term, Terms, terms_of

__all__ = [
    "CONCISE",
    "FILL",
    "MAX_CHARS",
    "DocumentPart",
    "Layout",
    "Passage",
    "PassageScanner",
    "PassageText",
    "Ranking",
    "RatedUnit",
    "Term",
    "TermWeights",
    "Terms",
    "compose",
    "coverage",
    "earlier_first",
    "regions",
    "terms_of",
    "weigh",
]
