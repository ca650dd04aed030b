"""A search response as a list with a section for each result, exactly as `core/search` lays it out.

Budgeted searches give ranges of this view, so there must be only one way to make it.
"""

from coatcheck.core.views.view import ExtractedText


def extract_results(data: bytes) -> ExtractedText | None:
    """Returns the list; None if neither a result nor a provider's answer was found in the response."""
    from coatcheck.core.search import search_view  # noqa: PLC0415 - a worker starts without what reads responses

    view = search_view(data)
    return None if view.text is None else view
