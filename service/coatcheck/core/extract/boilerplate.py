"""Splits a page's markup into tags and texts, and judges by a tag alone whether its element is boilerplate.

Linear in any page; builds no tree and never raises. The verdict is a guess, because names can mislead: `article.py`
overrules it for an element with most of the page's prose.
"""

import html
import re
from typing import Final


def words(text: str) -> frozenset[str]:
    """Returns the names in a text, which are separated by blanks, as a set."""
    return frozenset(text.split())


_OPAQUE: Final = re.compile(
    r"<(script|style|template|iframe|object|canvas|audio|video)\b[^<>]{0,4096}+>|<!--", re.IGNORECASE
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
"""Matches a tag, with groups for slash, name, and attributes including the `>`. If quotes are broken, the tag ends at
the next `>`. Matching is linear, although a quoted value may contain `<`: attempts that begin at different places are
in different states after each quotation mark, so that at most three are alive at any place, until each of them meets a
`<` and ends."""
_BROKEN: Final = re.compile(r"<[a-zA-Z/!?][^>]*+>?")
_ATTRIBUTE: Final = re.compile(r"([a-zA-Z][a-zA-Z-]{0,30}+)\s*=\s*(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++))")
_HREF: Final = re.compile(r"\bhref\s*=\s*(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++))", re.IGNORECASE)
_TAG_CHARS: Final = 4_000
"""Maximum characters of a tag in which attributes are read."""


def without_opaque(text: str) -> str:
    """Returns the page without scripts, styles, comments and the like. If one is never closed, the page ends there."""
    return _without(_OPAQUE, text)


def without_noscript(text: str) -> str:
    """Returns the page without the elements that browsers show only if scripts do not run."""
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
    """Returns the values of a tag's attributes by lower-case name; of equal names, the first counts.

    Attributes without a value are left out.
    """
    values: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(tag, 0, _TAG_CHARS):
        name, double, single, bare = match.groups()
        values.setdefault(name.lower(), html.unescape(double or single or bare or ""))
    return values


def without_broken(text: str) -> str:
    """Returns text between tags without broken tags: `<` and a letter, up to the next `>`."""
    return _BROKEN.sub(" ", text) if "<" in text else text


def href(tag: str) -> str:
    """Returns the target of a link; empty if its tag has none."""
    match = _HREF.search(tag, 0, _TAG_CHARS)
    return html.unescape(match.group(1) or match.group(2) or match.group(3) or "") if match else ""


def pieces(text: str, most: int) -> list[str | None]:
    """Returns the pieces of a page: the text before each tag, and the tag's slash, name and attributes, in turn.

    The last piece is the text behind the last tag, or behind tag number `most`. Entities are not decoded.
    """
    return TAG.split(text, most)


CONTENT: Final = 0
"""Verdict on an element that nothing marks as boilerplate."""
SUSPECT: Final = 1
"""Verdict on an element with a class or ID like boilerplate (`sidebar`, `share`), and on a form or a caption."""
COMMENTS: Final = 2
"""Verdict on an element with a class or ID like readers' comments, which may be longer than the article."""
ASIDE: Final = 3
"""Verdict on an element that is boilerplate by its tag or role, or is hidden from screen readers (`aria-hidden`)."""
INVISIBLE: Final = 4
"""Verdict on an element that is never shown."""
_ASIDE_TAGS: Final = words("nav footer aside button menu")
_INVISIBLE_TAGS: Final = words("head title desc metadata defs annotation annotation-xml textarea datalist rp")
_SUSPECT_TAGS: Final = words("form figcaption")
_HOLDERS: Final = words(
    "div section article main td th center ul ol dl table tbody thead tr blockquote li dd form header hgroup "
    "figure details fieldset pre p address"
)
_COMMENTS: Final = re.compile(r"comment(?!ar)|kommentar|comentari|disqus|livefyre|replies|shoutbox|\brespond\b")
_SUSPECT: Final = re.compile(
    r"sidebar|breadcrumb|footer|popup|sponsor|newsletter|cookie|gdpr|consent|promo(?!te)|related|recommend|advert"
    r"|subscri|paginat|navigation|navbar|outbrain|taboola|masthead|sharing|visually|screen-reader|sr-only|print-only"
    r"|edit-?section|sign-?up"
    r"|\b(?:ads?|banner|byline|caption|copyright|credits?|foot|login|menu|modal|nav|noprint|pager|search|share|skip\w*"
    r"|social|tags?|toolbar|hidden$)\b|^widgets?\b"
)
_LIKELY: Final = re.compile(r"article|\b(?:main|content|post|entry|story|body|text|page|blog)\b")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_HIDDEN: Final = re.compile(r"\shidden(?=[\s/>=])", re.IGNORECASE)
_HIDING_STYLE: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_QUOTED: Final = re.compile(r"\"[^\"]*+\"|'[^']*+'")
_OPEN: Final = re.compile(r"\sopen(?=[\s/>=])", re.IGNORECASE)
_ROLES: Final = words("navigation banner contentinfo complementary search dialog alertdialog menu menubar alert")
_TAG_WEIGHTS: Final = {"article": 25.0, "main": 15.0, "div": 2.0, "section": 2.0, "pre": 1.0, "td": 1.0, "form": -3.0}
_LIKELY_WEIGHT: Final = 10.0
"""Points that an element gets if its class, ID or another attribute indicates an article."""
_NAMES: Final = 300
"""Maximum characters of class and ID that are examined."""


def is_invisible(rest: str) -> bool:
    """Returns whether an element is hidden by its attributes, which are given as they are written in the tag."""
    text = rest[:_TAG_CHARS].lower()
    if "hidden" not in text and "none" not in text:
        return False
    attrs = attributes(text)
    if _HIDING_STYLE.search(attrs.get("style", "")):
        return True
    # A class named `hidden` does not count: style sheets may show such an element on wide screens.
    return _HIDDEN.search(_QUOTED.sub("", text)) is not None and attrs.get("hidden") != "until-found"


def judge(name: str, rest: str) -> tuple[int, float]:
    """Returns the verdict on an element and its initial score.

    Args:
        name: the element's name, in lower case.
        rest: the element's attributes, as they are written in the tag.
    """
    if name in _INVISIBLE_TAGS:
        return INVISIBLE, 0.0
    weight = _TAG_WEIGHTS.get(name, 0.0)
    verdict = ASIDE if name in _ASIDE_TAGS else SUSPECT if name in _SUSPECT_TAGS else CONTENT
    if len(rest) < 2 or name in {"body", "html"}:  # noqa: PLR2004 - no attributes
        return INVISIBLE if name == "dialog" else verdict, weight
    attrs = attributes(rest)
    if is_invisible(rest) or (name == "dialog" and not _OPEN.search(rest)):
        return INVISIBLE, 0.0
    if verdict == ASIDE or attrs.get("aria-hidden") == "true" or attrs.get("role") in _ROLES:
        return ASIDE, 0.0
    name_verdict, likely = _judge_names(f"{attrs.get('class', '')} {attrs.get('id', '')}"[:_NAMES])
    if name not in {"article", "main"}:
        verdict = max(verdict, name_verdict)
    likely = likely or attrs.get("itemprop") == "articleBody" or attrs.get("role") == "main"
    return verdict, weight + (_LIKELY_WEIGHT if likely and not verdict and name in _HOLDERS else 0.0)


def _judge_names(names: str) -> tuple[int, bool]:
    """Returns the verdict on an element's classes and ID, and whether one of them indicates an article.

    Next to a name that indicates an article, only names of a single word count as boilerplate: `sidebar`, but not
    `has-sidebar`.
    """
    verdict, likely, plain = CONTENT, False, False
    for raw in names.split():
        name = _CAMEL.sub("-", raw).lower().replace("_", "-")
        name_verdict = COMMENTS if _COMMENTS.search(name) else SUSPECT if _SUSPECT.search(name) else CONTENT
        verdict = max(verdict, name_verdict)
        plain = plain or (bool(name_verdict) and "-" not in name)
        likely = likely or (not name_verdict and bool(_LIKELY.search(name)))
    return (CONTENT if likely and not plain else verdict), likely
