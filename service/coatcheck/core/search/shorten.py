"""Fits outside text into one line of ours: inert, and cut at the end if it is too long."""

from typing import Final

from coatcheck_client.contract.inert import one_line

QUERY: Final = 200
"""Characters of a query that are shown."""
ADDRESS: Final = 600
"""Maximum characters of an address that is shown whole; a longer one is only in the view."""


def escape_citations(text: str) -> str:
    """Returns outside text in which nothing can be mistaken for our citations."""
    return text.replace("[art_", "\uff3bart_")


def short(text: str, most: int) -> str:
    """Returns a text on one line, inert, no citation of ours, with its end cut off and marked if it is too long."""
    flat = escape_citations(one_line(text[: most * 4]))
    return flat if len(flat) <= most else f"{flat[: most - 1].rstrip()}…"
