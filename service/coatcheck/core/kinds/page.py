"""Web pages: who they say they are. What they say, `core/extract/page.py` finds.

Only the head is given to an HTML parser, after scripts, styles and comments are gone and tags of hostile length are
refused: parsers are quadratic in attributes and in nesting.
"""

import re
from typing import Final
from urllib.parse import urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser

from coatcheck.core.artifact import Said, Sample
from coatcheck.core.kinds.description import Description

_PARSED: Final = 64 * 1024
_LONGEST_TAG: Final = 16 * 1024
_OPAQUE: Final = re.compile(
    rb"<(script|style|svg|noscript|template|iframe|select|textarea)\b[^<>]{0,4096}>|<!--", re.IGNORECASE
)
_HEAD_END: Final = re.compile(rb"</head\s*>|<body\b", re.IGNORECASE)
_TEXT: Final = re.compile(rb"<(?:article|main|h1|p)[\s>]", re.IGNORECASE)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?=T|$)")
_TITLE: Final = 10
"""Characters of a title that is one by itself."""
_DESCRIBED: Final = 1024**2
"""Bytes from which a page's own description is shown: its text may not be, or is long."""
_TEXTS: Final = 3
"""Beginnings of text under which a page is made of scripts, which its description may say more than."""
_MAX: Final = 300


class _Meta:
    """What a page's head says."""

    def __init__(self, data: bytes) -> None:
        self.title: str | None = None
        self.canonical: str | None = None
        self.description: str | None = None
        self.language: str | None = None
        tree = LexborHTMLParser(data.decode("utf-8", "replace"))
        root = tree.css_first("html")
        self.language = root.attributes.get("lang") if root is not None else None
        node = tree.css_first("title")
        titles = [node.text() if node is not None else None]
        named: dict[str, str] = {}
        for meta in tree.css("meta"):
            name = (meta.attributes.get("property") or meta.attributes.get("name") or "").lower()
            content = meta.attributes.get("content")
            if name and content:
                named.setdefault(name, content)
        link = next((n for n in tree.css("link") if (n.attributes.get("rel") or "").lower() == "canonical"), None)
        self.canonical = (link.attributes.get("href") if link is not None else None) or named.get("og:url")
        titles += [named.get("og:title"), named.get("twitter:title")]
        self.title = _shortest([_clean(t) for t in titles if t and t.strip()])
        words = named.get("description") or named.get("og:description")
        self.description = _clean(words) if words else None
        self.published = named.get("article:published_time") or named.get("date")


def _shortest(titles: list[str]) -> str | None:
    """The first title, or one of the others that is part of it: that is without the site's name."""
    if not titles:
        return None
    parts = [title for title in titles[1:] if len(title) >= _TITLE and title in titles[0]]
    return min([titles[0], *parts], key=len)


def _clean(text: str) -> str:
    return " ".join(text.split())[:_MAX]


def blank_opaque(data: bytes) -> bytes:
    """The page with scripts, styles, comments and the like blanked out, every other byte at its place. Linear."""
    pieces: list[bytes] = []
    at = 0
    while True:
        match = _OPAQUE.search(data, at)
        if match is None:
            pieces.append(data[at:])
            return b"".join(pieces)
        name = match.group(1)
        closing = re.compile(rb"</" + name + rb"\b[^<>]{0,64}>", re.IGNORECASE) if name else _COMMENT_END
        end = closing.search(data, match.end())
        stop = end.end() if end else len(data)
        pieces += [data[at : match.start()], b" " * (stop - match.start())]
        at = stop


_COMMENT_END: Final = re.compile(rb"-->")


def _parsable(data: bytes) -> bytes | None:
    """The part of the cleaned page that is safe to parse: its head, at most 64 KB, no monstrous tag."""
    end = _HEAD_END.search(data)
    part = re.sub(rb"[ \t\r\n]{2,}", b"\n", data[: end.start() if end else len(data)])[:_PARSED]
    longest = max((len(piece) for piece in part.split(b"<")), default=0)
    return None if longest > _LONGEST_TAG or part.count(b"<") > 4_000 else part  # noqa: PLR2004 - heads have hundreds


def describe_page(sample: Sample, declared: Said) -> Description:
    """Returns title, canonical URL and description, from the head alone.

    A relative canonical URL is resolved against the URL that the caller gave.
    """
    part = _parsable(blank_opaque(sample.head[: 4 * _PARSED]))
    if part is None:
        return Description()
    meta = _Meta(part)
    facts: list[str] = []
    if meta.published and len(meta.published) <= 40:  # noqa: PLR2004 - a date, not a text
        day = _DAY.match(meta.published)
        facts.append(f"Published: {day.group() if day else meta.published}")
    textless = sample.size > _DESCRIBED or len(_TEXT.findall(sample.head)) < _TEXTS
    if textless and meta.description and meta.description != meta.title:
        facts.append(f"Description: {meta.description}")
    url = _resolve(meta.canonical, declared.url)
    language = meta.language.strip()[:20] if meta.language else None
    return Description(facts=tuple(facts), title=meta.title, url=url, language=language or None)


def _resolve(canonical: str | None, base: str | None) -> str | None:
    if not canonical:
        return None
    try:
        url = urljoin(base or "", canonical.strip())
        parts = urlsplit(url)
    except ValueError:
        return None
    return url if parts.scheme in {"http", "https"} and parts.netloc and url != base else None
