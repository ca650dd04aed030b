"""Whether a tool searches the web, by its name."""

import re
from typing import Final

_SEARCH_TOOL: Final = re.compile(
    r"(?:web|news|internet|google|bing|brave|tavily|exa|duckduckgo|ddg|serp)\w{0,12}[-_.]?search"
    r"|search[-_.]?(?:web|results|engine)|^search$|tavily|serper",
    re.IGNORECASE,
)


def is_search_tool(name: str | None) -> bool:
    """Returns whether a tool of this name answers with what a search engine found."""
    return name is not None and _SEARCH_TOOL.search(name) is not None
