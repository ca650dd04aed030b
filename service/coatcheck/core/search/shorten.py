"""A text from outside on one line of ours: inert, and its end cut off where it is too long."""

from typing import Final

from coatcheck_client.contract.inert import one_line

QUERY: Final = 200
"""Characters of a query that are shown."""
ADDRESS: Final = 600
"""Characters of an address that is shown whole; a longer one is a page's own business, and stands in the view."""


def short(text: str, most: int) -> str:
    """A text on one line, inert, its end cut off and marked where it is too long."""
    flat = one_line(text[: most * 4])
    return flat if len(flat) <= most else f"{flat[: most - 1].rstrip()}…"
