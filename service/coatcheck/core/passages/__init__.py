"""The passages of a document that best answer a query, in any language, without an index.

`terms_of` reads the query, `Scanner` finds its terms in one pass over content that streams past, `weigh` and `regions`
say what they are worth and where to look closer, `Ranking` rates the sentences and lines there, and `compose` shows the
best within a budget. Pure: the same document, query and budget give the same answer.
It understands no meaning: a passage that answers in other words is not found.
"""

from coatcheck.core.passages.choose import CONCISE, FILL
from coatcheck.core.passages.compose import Composed, Layout, Passage, compose
from coatcheck.core.passages.rank import Part, Ranking, Rated, earlier_first
from coatcheck.core.passages.regions import Weights, regions, weigh
from coatcheck.core.passages.scan import Hits, Scanner
from coatcheck.core.passages.terms import MAX_CHARS, MAX_TERMS, Term, Terms, terms_of

__all__ = [
    "CONCISE",
    "FILL",
    "MAX_CHARS",
    "MAX_TERMS",
    "Composed",
    "Hits",
    "Layout",
    "Part",
    "Passage",
    "Ranking",
    "Rated",
    "Scanner",
    "Term",
    "Terms",
    "Weights",
    "compose",
    "earlier_first",
    "regions",
    "terms_of",
    "weigh",
]
