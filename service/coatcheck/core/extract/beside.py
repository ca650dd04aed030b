"""What an element of a page is by its name and attributes: beside the text, perhaps so, or where text is likely."""

import re
from typing import Final

from coatcheck.core.extract.tags import attributes, words

PERHAPS: Final = 1
BESIDE: Final = 2
"""How surely an element is beside the text; 0 where nothing says so."""
_ASIDE: Final = words("head nav footer aside button menu dialog")
_UNLIKELY_NAMES: Final = words("form figcaption")
_HOLDERS: Final = words(
    "div section article main body td th center ul ol dl table tbody thead tr blockquote li dd form header hgroup "
    "figure details nav footer aside menu dialog button fieldset figcaption pre p address"
)
_UNLIKELY: Final = words(
    "comment comments commentlist disqus share sharing social related sidebar foot footer menu breadcrumb breadcrumbs "
    "cookie cookies popup modal ad ads banner masthead pagination pager toolbar widget outbrain taboola tag tags login "
    "signup search hidden noprint editsection"
)
_UNLIKELY_STARTS: Final = (
    "recommend",
    "nav",
    "promo",
    "newsletter",
    "subscri",
    "advert",
    "sponsor",
    "skip",
    "visually",
)
_UNLIKELY_PHRASES: Final = ("sr-only", "screen-reader", "print-only", "edit-section")
_LIKELY: Final = words("main content post entry story body text page blog")
_WORD: Final = re.compile(r"[a-z0-9]+")
_HIDDEN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_NAMED: Final = {"article": 25.0, "main": 15.0, "div": 2.0, "section": 2.0, "pre": 1.0, "td": 1.0, "form": -3.0}
_ROLES: Final = words("navigation banner contentinfo complementary search dialog menu menubar alert")
_LIKED: Final = 10.0
_NAMES: Final = 300
_BARE: Final = re.compile(r"\shidden(?=[\s/>])", re.IGNORECASE)


def judged(name: str, rest: str) -> tuple[int, float]:
    """Whether an element is beside the text by its name or attributes, and the score that those give it."""
    if name in _ASIDE:
        return BESIDE, 0.0
    liked = _NAMED.get(name, 0.0)
    if len(rest) < 2 or name in {"body", "html"}:  # noqa: PLR2004 - no attributes
        return PERHAPS if name in _UNLIKELY_NAMES else 0, liked
    said = attributes(rest)
    if (
        _BARE.search(rest, 0, _NAMES)
        or "hidden" in said
        or said.get("aria-hidden") == "true"
        or _HIDDEN.search(said.get("style", ""))
    ):
        return BESIDE, 0.0
    if said.get("role") in _ROLES:
        return BESIDE, 0.0
    names = f"{said.get('class', '')} {said.get('id', '')}"[:_NAMES].lower()
    single = frozenset(_WORD.findall(names))
    likely = "article" in names or not _LIKELY.isdisjoint(single)
    if name in _UNLIKELY_NAMES or (not likely and name not in {"article", "main"} and _is_unlikely(names, single)):
        return PERHAPS, 0.0
    return 0, liked + (_LIKED if likely and name in _HOLDERS else 0.0)


def _is_unlikely(names: str, single: frozenset[str]) -> bool:
    """Whether what an element is called says that it stands beside the text."""
    if not _UNLIKELY.isdisjoint(single) or any(phrase in names for phrase in _UNLIKELY_PHRASES):
        return True
    return any(word.startswith(_UNLIKELY_STARTS) for word in single)
