"""A search response as a list, a section for each result: what `core/search` lays out, and nothing else.

The ranges that a budgeted search gives are ranges of this view, so that there must be only one maker of it. What holds
neither a result nor a provider's answer is none of its business.
"""

from coatcheck.core.views.view import ExtractedText


def extract_results(data: bytes) -> ExtractedText | None:
    """The list; None where nothing was found in the response."""
    from coatcheck.core.search import search_view  # noqa: PLC0415 - a worker starts without what reads responses

    made = search_view(data)
    return None if made.text is None else made
