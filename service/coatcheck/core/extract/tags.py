"""A page's markup as a stream of tags and texts. Linear in the page whatever it holds; builds no tree, raises never."""

import html
import re
from typing import Final


def words(text: str) -> frozenset[str]:
    """Names, as they are listed."""
    return frozenset(text.split())


_OPAQUE: Final = re.compile(
    r"<(script|style|svg|noscript|template|iframe|select|textarea|object|canvas|math)\b[^<>]{0,4096}+>|<!--",
    re.IGNORECASE,
)
_CLOSING: Final = {
    name: re.compile(rf"</{name}\b[^<>]{{0,64}}>", re.IGNORECASE)
    for name in words("script style svg noscript template iframe select textarea object canvas math")
}
_COMMENT_END: Final = re.compile("-->")
TAG: Final = re.compile(
    r"<(?:(/?)([a-zA-Z][a-zA-Z0-9:-]{0,20}+)"
    r"([^<>\"']*+(?>(?:(?:\"[^\"<]*+\"|'[^'<]*+'|(?<==)(?:\"[^\"]*+\"|'[^']*+'))[^<>\"']*+)*)>|[^<>]*+>)"
    r"|[!?/][^<>]*+>)"
)
"""A tag: slash, name, attributes with the `>` after them; where its quotes are broken, what stands before the next `>`.

Linear, though a quoted value may hold `<`: of two tries that began at different places each quotation mark moves both,
and never to the same state, so that at most three are alive at any place before one meets a `<` and ends."""
_BROKEN: Final = re.compile(r"<[a-zA-Z/!?][^>]*+>?")
_ATTRIBUTE: Final = re.compile(r"([a-zA-Z][a-zA-Z-]{0,30}+)\s*=\s*(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++))")
_HREF: Final = re.compile(r"\bhref\s*=\s*(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++))", re.IGNORECASE)
_LOOKED_AT: Final = 4_000
"""Characters of a tag whose attributes are looked at."""


def without_opaque(text: str) -> str:
    """The page without scripts, styles, comments and the like. What is never closed ends the page."""
    pieces: list[str] = []
    at = 0
    while (match := _OPAQUE.search(text, at)) is not None:
        pieces.append(text[at : match.start()])
        name = match.group(1)
        end = (_CLOSING[name.lower()] if name else _COMMENT_END).search(text, match.end())
        if end is None:
            at = len(text)
            break
        at = end.end()
    pieces.append(text[at:])
    return " ".join(pieces)


def attributes(tag: str) -> dict[str, str]:
    """A tag's attributes by lower-cased name, as far as they are quoted or simple; the first of a name counts."""
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(tag, 0, _LOOKED_AT):
        name, double, single, bare = match.groups()
        found.setdefault(name.lower(), html.unescape(double or single or bare or ""))
    return found


def without_broken(text: str) -> str:
    """Text between tags without what was meant to be one: `<` and a letter, up to the next `>`."""
    return _BROKEN.sub(" ", text) if "<" in text else text


def href(tag: str) -> str:
    """Where a link leads; empty where its tag does not say it."""
    match = _HREF.search(tag, 0, _LOOKED_AT)
    return html.unescape(match.group(1) or match.group(2) or match.group(3) or "") if match else ""


def pieces(text: str, most: int) -> list[str | None]:
    """Text, slash, name, attributes, text, and so on, for `most` tags; the last is text. Entities are not resolved."""
    return TAG.split(text, most)
