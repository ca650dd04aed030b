"""Which results are shown first: the provider's ranking, unless the query itself says otherwise.

In this order, each only among results that are equal so far:
1. `site:example.org` in the query: results of that site and its subdomains before others.
2. `"a phrase"` in the query: results that have it, in any case, before others.
3. results with a text before those with a title alone: a place among the shown is for text.
4. results with any of the query's terms in title, URL or text before those without.
5. the provider's rank. Scores are not looked at: each provider's means something else, and ranks follow it.
"""

import re
from typing import Final
from urllib.parse import urlsplit

from coatcheck.core.passages.scan import TermFinder
from coatcheck.core.search.model import SearchResult
from coatcheck.core.search.view import ResponseLayout

_SITE: Final = re.compile(r"(?<!\S)site:\s?([^\s\"']{1,200})", re.IGNORECASE)
_PHRASE: Final = re.compile(r"\"([^\"\n]{2,200})\"|[“„«]([^”“»\n]{2,200})[”“»]")
_MOST: Final = 8
"""Maximum number of sites and phrases that are used."""


def words_of(query: str) -> str:
    """Returns a query without its `site:` terms."""
    return _SITE.sub(" ", query)


def order_results(laid: ResponseLayout, indices: tuple[int, ...], query: str, finder: TermFinder | None) -> list[int]:
    """Returns the indices of results in the order in which they are shown."""
    sites = [site.lower().removeprefix("www.").strip("/*.") for site in _SITE.findall(query)[:_MOST]]
    phrases = [_flat(one or two) for one, two in _PHRASE.findall(query)[:_MOST]]

    def worth(place: int) -> tuple[bool, bool, bool, bool, int]:
        result, body = laid.response.results[place], laid.bodies[place]
        head = f"{result.title}\n{result.url or ''}\n"
        off_site = bool(sites) and not any(_of_site(result, site) for site in sites)
        without = bool(phrases) and not _has(f"{head}{body.text}", phrases)
        missing = finder is not None and finder.next(head.encode("utf-8", "replace") + body.data, 0) is None
        return off_site, without, not body.text, missing, place

    return sorted(indices, key=worth)


def _of_site(result: SearchResult, site: str) -> bool:
    host, _, path = site.partition("/")
    try:
        parts = urlsplit(result.canonical_url or result.url or "")
        name = (parts.hostname or "").removeprefix("www.")
    except ValueError:
        return False
    return (name == host or name.endswith(f".{host}")) and parts.path.lower().startswith(f"/{path}" if path else "")


def _has(text: str, phrases: list[str]) -> bool:
    flat = _flat(text)
    return all(phrase in flat for phrase in phrases)


def _flat(text: str) -> str:
    return " ".join(text.casefold().split())
