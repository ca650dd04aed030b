"""Recognises web pages, and describes them by their heads; `core/extract/page.py` extracts the text."""

import html
import re
from itertools import islice
from typing import Final
from urllib.parse import urljoin, urlsplit

from coatcheck.core.extract.tags import TAG, attributes, without_opaque
from coatcheck.core.kinds.description import Description, PayloadProbe

_START: Final = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:(?><\?xml[^>]{0,200}>)\s*|(?><!--.{0,4000}?-->)\s*){0,3}<(?:!doctype\s+html|html\b|head\b"
    rb"|body\b)",
    re.IGNORECASE | re.DOTALL,
)
_ELEMENT: Final = re.compile(
    rb"</?(p|div|a|span|li|ul|ol|table|t[rdhbt]\w*|h[1-6]|br|img|section|article|nav|header|footer|main|d[ltd]|pre|code"
    rb"|strong|em|b|i|form|input|link|meta|script|style|title|svg|path|font|figure|blockquote)(?=[\s/>])",
    re.IGNORECASE,
)
_NOT_A_PAGE: Final = re.compile(
    rb"^(?:#{1,6} \S|```|\.\. \w|\s*(?:import|export|const|let|function|def|class|return)\b.*[;:{(]?$|\s*\{%)",
    re.MULTILINE,
)
"""Matches lines of documentation, code and templates, which are full of tags."""
_MARKDOWN: Final = re.compile(rb"^(?:#{1,6} [^\n#]*[^\W_]|```\w*\r?$)", re.MULTILINE)
_SORTS: Final = 3
_EACH: Final = 220
"""Maximum bytes per tag in a piece of a page."""

_HEAD: Final = 64 * 1024
"""Characters of a page's head that are read."""
_TAGS: Final = 4_000
_HEAD_END: Final = re.compile(r"</head\s*>|<body\b", re.IGNORECASE)
_TITLE_END: Final = re.compile(r"</title\s*>", re.IGNORECASE)
_TAGGED: Final = re.compile(r"<([A-Za-z][A-Za-z0-9]{0,9})(?: [^<>]{0,200})?>([^<>]{0,300})</\1>")
"""Matches a tag around words, which is no part of a title."""
_TEXT: Final = re.compile(rb"<(?:article|main|h1|p)[\s>]", re.IGNORECASE)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?=T|$)")
_TITLE: Final = 10
"""Minimum characters of a title without a site's name."""
_DESCRIBED: Final = 1024**2
"""Bytes from which a page's own description is shown: its text may not be, or is long."""
_MAX_TEXT_STARTS: Final = 3
"""Maximum beginnings of text in a page made of scripts, whose description may say more."""
_MAX: Final = 300
_LONG: Final = 2_000
"""Characters of a title that are looked at."""


def is_page(head: bytes) -> bool:
    """Returns whether a text is a page, or a piece of one: HTML elements, of several sorts and dense.

    A document element at the start is proof. A few tags are not a page, nor is text that does not begin with a tag.
    """
    if _START.match(head):
        return True
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:5]
    if head.count(b"</") < _SORTS or start[:1] != b"<" or start.lower() in {b"<?php", b"<?xml"}:
        return False
    element_names = [name.lower() for name in _ELEMENT.findall(head)]
    if (
        len(set(element_names)) < _SORTS
        or len(element_names) <= _SORTS
        or not head.count(b"<") / 3 <= len(element_names) >= len(head) / _EACH
    ):
        return False
    return len(_MARKDOWN.findall(head)) < _SORTS and len(_NOT_A_PAGE.findall(head)) < max(2, 0.15 * head.count(b"\n"))


def describe_page(payload: PayloadProbe) -> Description:
    """Returns title, date, description and canonical URL, resolved against the declared one, from the head alone."""
    sample = payload.sample
    text = without_opaque(sample.head[: 4 * _HEAD].decode("utf-8", "replace"))
    end = _HEAD_END.search(text)
    text = text[: min(_HEAD, end.start() if end else _HEAD)]
    metadata: dict[str, str] = {}
    for tag in islice(TAG.finditer(text), _TAGS):
        name, attribute_text = (tag[2] or "").lower(), tag[3] or ""
        if name == "title" and not tag[1]:
            end = _TITLE_END.search(text, tag.end())
            title = html.unescape(text[tag.end() : end.start() if end else text.find("</", tag.end())])
            metadata.setdefault("title", _TAGGED.sub(r"\2", _TAGGED.sub(r"\2", title[:_LONG])))
        elif name in {"html", "meta", "link"}:
            values = attributes(attribute_text)
            key = values.get("property") or values.get("name") or f"{name} {values.get('rel', '')}".strip()
            value = values.get({"html": "lang", "meta": "content", "link": "href"}[name])
            if value:
                metadata.setdefault(key.lower(), value)
    title = _shortest(metadata.get("title"), metadata.get("og:title"), metadata.get("twitter:title"))
    facts: list[str] = []
    published = metadata.get("article:published_time") or metadata.get("date")
    if published and len(published) <= 40:  # noqa: PLR2004 - a date, not a text
        day = _DAY.match(published)
        facts.append(f"Published: {day.group() if day else published}")
    described = _clean(metadata.get("description") or metadata.get("og:description") or "")
    textless = sample.size > _DESCRIBED or len(_TEXT.findall(sample.head)) < _MAX_TEXT_STARTS
    if textless and described and described != title:
        facts.append(f"Description: {described}")
    url = _resolve(metadata.get("link canonical") or metadata.get("og:url"), payload.declared.url)
    return Description(facts=tuple(facts), title=title, url=url, language=metadata.get("html", "").strip()[:20] or None)


def _shortest(*titles: str | None) -> str | None:
    """Returns the first title, or another one that is part of it, and so lacks the site's name."""
    clean = [_clean(title) for title in titles if title and title.strip()]
    parts = [title for title in clean[1:] if len(title) >= _TITLE and title in clean[0]]
    return min([*clean[:1], *parts], key=len, default=None)


def _clean(text: str) -> str:
    return " ".join(text.split())[:_MAX]


def _resolve(canonical: str | None, base: str | None) -> str | None:
    try:
        url = urljoin(base or "", (canonical or "").strip())
        parts = urlsplit(url)
    except ValueError:
        return None
    return url if canonical and parts.scheme in {"http", "https"} and parts.netloc and url != base else None
