"""Budgeted web searches: any provider's response in, what a model should read of it out.

`normalise` reads a response, `lay_out` makes its text view, `budget_search` cuts what is shown this turn, `summarise`
what is kept for later turns; `search_view` is the view to store, `verify` checks a quotation. Pure: the same response,
query and limits always give the same bytes.
"""

from coatcheck.core.search.budget import budget_search
from coatcheck.core.search.budget_model import Budgeted, SearchCounts, anthropic_result
from coatcheck.core.search.fold import Domains, EarlierSource, FoldedResult, fingerprint, fingerprints
from coatcheck.core.search.model import SearchLimits
from coatcheck.core.search.responses.normalise import normalise
from coatcheck.core.search.summary import SearchSummary, summarise
from coatcheck.core.search.view import ResponseLayout, lay_out, search_view
from coatcheck_client.contract.canonical import canonical
from coatcheck_client.contract.quotations import Difference, verify

__all__ = [
    "Budgeted",
    "Difference",
    "Domains",
    "EarlierSource",
    "FoldedResult",
    "ResponseLayout",
    "SearchCounts",
    "SearchLimits",
    "SearchSummary",
    "anthropic_result",
    "budget_search",
    "canonical",
    "fingerprint",
    "fingerprints",
    "lay_out",
    "normalise",
    "search_view",
    "summarise",
    "verify",
]
