"""The passages of a document that best answer a query, in any language, without an index.

`terms_of` reads the query, `Scanner` finds its terms in one pass over content that streams past, `weigh` and `regions`
say what they are worth and where to look closer, `Ranking` rates the sentences and lines there, and `compose` shows the
best within a budget. Pure: the same document, query and budget give the same answer. It understands no meaning: a
passage that answers in other words is not found.
"""

from coatcheck.core.windows.compose import Composed, Passage, compose
from coatcheck.core.windows.rank import Part, Ranking, Rated
from coatcheck.core.windows.regions import Weights, regions, weigh
from coatcheck.core.windows.scan import Hits, Scanner
from coatcheck.core.windows.terms import MAX_CHARS, MAX_TERMS, Term, Terms, terms_of

__all__ = [
    "MAX_CHARS",
    "MAX_TERMS",
    "Composed",
    "Hits",
    "Part",
    "Passage",
    "Ranking",
    "Rated",
    "Scanner",
    "Term",
    "Terms",
    "Weights",
    "compose",
    "regions",
    "terms_of",
    "weigh",
]
