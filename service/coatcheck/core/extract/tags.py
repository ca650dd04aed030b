"""Splits a page's markup into tags and texts. Linear in any page; builds no tree and never raises."""

import html
import re
from typing import Final


def words(text: str) -> frozenset[str]:
    """Returns a set of listed names."""
    return frozenset(text.split())


_OPAQUE: Final = re.compile(
    r"<(script|style|template|iframe|object|canvas|audio|video)\b[^<>]{0,4096}+>|<!--",
    re.IGNORECASE,
)
_CLOSING: Final = {
    name: re.compile(rf"</{name}\b[^<>]{{0,64}}>", re.IGNORECASE)
    for name in words("script style template iframe object canvas audio video noscript")
}
_NOSCRIPT: Final = re.compile(r"<(noscript)\b[^<>]{0,4096}+>", re.IGNORECASE)
_COMMENT_END: Final = re.compile("-->")
TAG: Final = re.compile(
    r"<(?:(/?)([a-zA-Z][a-zA-Z0-9:-]{0,20}+)"
    r"([^<>\"']*+(?>(?:(?:\"[^\"<]*+\"|'[^'<]*+'|(?<==)(?:\"[^\"]*+\"|'[^']*+'))[^<>\"']*+)*)>|[^<>]*+>)"
    r"|[!?/][^<>]*+>)"
)
"""Matches a tag: slash, name, attributes including the `>`; with broken quotes, everything before the next `>`. It is
linear although a quoted value may contain `<`: each quotation mark moves two attempts that began at different places to
different states, so at most three are alive at any place before one meets a `<` and ends."""
_BROKEN: Final = re.compile(r"<[a-zA-Z/!?][^>]*+>?")
_ATTRIBUTE: Final = re.compile(r"([a-zA-Z][a-zA-Z-]{0,30}+)\s*=\s*(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++))")
_HREF: Final = re.compile(r"\bhref\s*=\s*(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++))", re.IGNORECASE)
_LOOKED_AT: Final = 4_000
"""Characters of a tag whose attributes are read."""


def without_opaque(text: str) -> str:
    """Returns the page without scripts, styles, comments and the like. One that is never closed ends the page."""
    return _without(_OPAQUE, text)


def without_noscript(text: str) -> str:
    """Returns the page without what it shows only where scripts do not run."""
    return _without(_NOSCRIPT, text) if _NOSCRIPT.search(text) else text


def _without(elements: re.Pattern[str], text: str) -> str:
    pieces: list[str] = []
    at = 0
    while (match := elements.search(text, at)) is not None:
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
    """Returns a tag's attributes by lower-case name, as far as they are quoted or simple.

    The first of a name counts.
    """
    values: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(tag, 0, _LOOKED_AT):
        name, double, single, bare = match.groups()
        values.setdefault(name.lower(), html.unescape(double or single or bare or ""))
    return values


def without_broken(text: str) -> str:
    """Returns text between tags without broken tags: `<` and a letter, up to the next `>`."""
    return _BROKEN.sub(" ", text) if "<" in text else text


def href(tag: str) -> str:
    """Returns the target of a link; empty if its tag has none."""
    match = _HREF.search(tag, 0, _LOOKED_AT)
    return html.unescape(match.group(1) or match.group(2) or match.group(3) or "") if match else ""


def pieces(text: str, most: int) -> list[str | None]:
    """Returns text, slash, name, attributes, text, and so on, for `most` tags; the last is text.

    Entities stay as they are.
    """
    return TAG.split(text, most)
