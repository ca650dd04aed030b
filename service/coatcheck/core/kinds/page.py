"""Recognises web pages, describes them by their heads, and finds how a page was fetched.

`core/extract/page.py` extracts the text. The payload may say how a page was fetched: in the fetcher's JSON around the
page, or in lines above it. The rules are not specific to any fetcher. In JSON, the page is the only object that has a
URL and also a text or an HTTP status. The names of the object's members, in any spelling, determine their meaning.
Above a text, the same names are labels, and a sentence with one URL names the page. If there may be several pages, no
fetch is returned.
"""

import html
import re
from itertools import chain, islice
from typing import Final, cast
from urllib.parse import urljoin, urlsplit

from coatcheck.core.artifact import DeclaredMetadata, PageFetch, PayloadSample
from coatcheck.core.extract.boilerplate import TAG, attributes, without_opaque
from coatcheck.core.kinds.description import Description, PayloadProbe, clip_line
from coatcheck.core.media.documents import pdf_title
from coatcheck.core.metadata_bounds import READ, as_address

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
"""Minimum end tags and minimum sorts of elements in a piece of a page. A text with this many lines of Markdown is no
page."""
_EACH: Final = 220
"""Maximum bytes per tag in a piece of a page."""

_HEAD: Final = 64 * 1024
"""Maximum characters of a page's head that are read."""
_MAX_TAGS: Final = 4_000
"""Maximum tags of a page's head that are read; typical heads have some hundreds."""
_HEAD_END: Final = re.compile(r"</head\s*>|<body\b", re.IGNORECASE)
_TITLE_END: Final = re.compile(r"</title\s*>", re.IGNORECASE)
_TAGGED: Final = re.compile(r"<([A-Za-z][A-Za-z0-9]{0,9})(?: [^<>]{0,200})?>([^<>]{0,300})</\1>")
"""Matches a tag around words, which is no part of a title."""
_TEXT: Final = re.compile(rb"<(?:article|main|h1|p)[\s>]", re.IGNORECASE)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?=T|$)")
_TITLE: Final = 10
"""Minimum characters of a title without a site's name."""
_DESCRIBED: Final = 1024**2
"""A description that a page gives of itself is shown if the page has more than this many bytes, because its text is
long, or perhaps not shown."""
_MAX_TEXT_STARTS: Final = 3
"""A page with fewer beginnings of text than this is made of scripts, and its description may say more than its text."""
_FIELD_CHARS: Final = 300
"""Maximum characters of a title and of a description: what a card has room for."""
_LONG: Final = 2_000
"""Maximum characters of a title that are searched for tags."""


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
    is_dense = head.count(b"<") / 3 <= len(element_names) >= len(head) / _EACH
    if len(set(element_names)) < _SORTS or len(element_names) <= _SORTS or not is_dense:
        return False
    return len(_MARKDOWN.findall(head)) < _SORTS and len(_NOT_A_PAGE.findall(head)) < max(2, 0.15 * head.count(b"\n"))


def describe_page(payload: PayloadProbe) -> Description:
    """Returns title, date, description and canonical URL, resolved against the declared one, from the head alone."""
    sample = payload.sample
    # Scripts are removed first: they may contain tags in strings, and some pages begin with megabytes of scripts.
    text = without_opaque(sample.head[: 4 * _HEAD].decode("utf-8", "replace"))
    end = _HEAD_END.search(text)
    text = text[: min(_HEAD, end.start() if end else _HEAD)]
    metadata: dict[str, str] = {}
    for tag in islice(TAG.finditer(text), _MAX_TAGS):
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
    # Pages state most facts several times: in HTML's own tags, in those of Open Graph, in those of social networks.
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
    """Returns the first title, or a shorter title that is part of it, and so probably lacks only the site's name."""
    clean = [_clean(title) for title in titles if title and title.strip()]
    parts = [title for title in clean[1:] if len(title) >= _TITLE and title in clean[0]]
    return min([*clean[:1], *parts], key=len, default=None)


def _clean(text: str) -> str:
    return clip_line(text, _FIELD_CHARS)


def _resolve(canonical: str | None, base: str | None) -> str | None:
    try:
        url = urljoin(base or "", (canonical or "").strip())
        parts = urlsplit(url)
    except ValueError:
        return None
    return url if canonical and parts.scheme in {"http", "https"} and parts.netloc and url != base else None


_HTTP: Final = ("statuscode", "httpstatus", "httpstatuscode", "httpcode", "responsestatus", "responsecode")
"""Names that only the status of an HTTP response has."""
_ASKED: Final = ("requestedurl", "requesturl", "originalurl", "sourceurl", "urlsource", "inputurl")
"""Names of the requested URL. Beside such a member, a plain `url` is the URL to which redirects led."""
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "status": (*_HTTP, "status", "code"),
    "final_url": ("finalurl", "resolvedurl", "responseurl", "redirectedurl", "effectiveurl", "loadedurl", "landingurl"),
    "content_type": ("contenttype", "mimetype", "mediatype"),
    "fetched_at": ("fetchedat", "retrievedat", "scrapedat", "crawledat", "loadedtime", "cachedat"),
    "url": ("url", "uri", "pageurl", "link", "href", "source"),
    "title": ("title", "pagetitle", "ogtitle"),
}
"""Names of members and labels for each field of PageFetch, the most specific name first. Names are in lower case,
without `_`, `-` and the like."""
_TEXTS: Final = ("markdown", "content", "text", "html", "rawhtml", "rawcontent", "pagecontent", "result")
_SHARE: Final = 0.5
"""Share of the JSON above which a string of any name is the page, if it is HTML or the object has a status."""
_AROUND: Final = frozenset({"metadata", "meta", "crawl", "response", "request", "page", "info", "http"})
"""Names of inner objects whose members describe the page as well."""
_REMARKS: Final = ("warning", "error")
"""Members and labels whose text may mention an HTTP status."""
_QUERY: Final = frozenset({"query", "q", "searchparameters"})
"""Members of a search engine's response. The only result of such a response is not a fetched page."""
_MAX_DEPTH: Final = 4
"""Maximum nesting of objects, and of lists of one item, around the page."""
_MIN_DATA_OBJECTS: Final = 8
"""Maximum objects and lists beside one another that are searched for the page; more are data."""
_NO_LETTERS: Final = re.compile(r"[\W_]+")
_STATUS: Final = re.compile(r"(?i)\b(?:error|status|HTTP)(?:[ _-]?code)?[ :=]{1,2}([1-5]\d\d)\b")
_HEAD_CHARS: Final = 16 * 1024
"""Characters at the beginning of a text that are searched for lines about the page."""
_MAX_LINES: Final = 16
"""Lines at the beginning of a text that are searched for labels."""
_LABEL: Final = re.compile(r"\W{0,3}([A-Za-z][A-Za-z _-]{0,30}):\**(?:\s+(.*))?")
_ENOUGH: Final = 2
"""Minimum labels that describe a page; a single label may belong to anything."""
_OTHERS: Final = frozenset({"publishedtime", "publisheddate", "description", "numberofpages", "author", "language"})
"""Further labels of pages, which may stand between the labels of _NAMES."""
_SENTENCE: Final = re.compile(
    r"(?i)(?=.{0,80}\b(?:contents?|pages?|text|response|fetch\w*|retriev\w*|scrap\w*|crawl\w*)\b)"
    r"[^/<>]{1,80}?<?(https?://[^\s<>\"']+?)>?(:| - .{1,200}|: .{1,200})"
)
"""Matches a line of words and one URL, which introduces the page's text with a colon, or says what went wrong."""
_TYPE: Final = re.compile(r"(?i)content[- ]type:? ([^\s/]+/[^\s;]+(?:; ?[\w-]+=[\w.-]+)?) ")
_FAILURE: Final = 2_000
"""Maximum bytes of a text that only says why there is no page."""
_HEADING: Final = re.compile(r"\A\s*#{2,6} +(\S.*)|^# +(\S.*)", re.MULTILINE)
"""Matches a heading of the first level, or of a lower level at the beginning of the text."""

Members = dict[str, object]


def find_fetch(payload: PayloadProbe) -> PageFetch | None:
    """Returns how the page in a payload was fetched; None if the payload does not say so, or holds no fetched page."""
    reading = payload.json
    if reading is not None:
        return _of_value(reading.value, len(payload.sample.head), _MAX_DEPTH) if reading.complete else None
    return _of_lines(payload.sample) if b"http" in payload.sample.head[:_HEAD_CHARS] else None


def fetch_of_members(value: object) -> PageFetch | None:
    """Returns how a page was fetched, by the members of the object that holds the page; None if they do not say so."""
    return _read(_flat(cast("Members", value)), 0) if isinstance(value, dict) else None


def _of_value(value: object, size: int, depth: int) -> PageFetch | None:
    """Returns how the only page in a JSON value of `size` bytes was fetched; None if there is none, or several."""
    if isinstance(value, list):
        items = cast("list[object]", value)
        return _of_value(items[0], size, depth - 1) if len(items) == 1 and depth else None
    members = cast("Members", value) if isinstance(value, dict) else {}
    flat = _flat(members)
    if not _QUERY.isdisjoint(flat):
        return None
    if (fetch := _read(flat, size)) is not None or not depth:
        return fetch
    lists = [cast("list[object]", each) for each in members.values() if isinstance(each, list)]
    objects = [cast("Members", each) for each in members.values() if isinstance(each, dict)]
    has_records = any(isinstance(item, dict) for items in lists for item in items[1:])
    if has_records or len(lists) + len(objects) > _MIN_DATA_OBJECTS:
        return None
    pages = [page for each in (*objects, *lists) if (page := _of_value(each, size, depth - 1)) is not None]
    return pages[0] if len(pages) == 1 else None


def _flat(members: Members) -> Members:
    """Returns the members of an object by their bare names, with the members of its inner objects named in _AROUND."""
    bare_members = {_bare(name): value for name, value in members.items() if value not in (None, "")}
    around: list[object] = [value for name, value in bare_members.items() if name in _AROUND]
    for each in cast("list[Members]", [value for value in around if isinstance(value, dict)]):
        bare_members = {_bare(name): value for name, value in each.items() if value not in (None, "")} | bare_members
    return bare_members


def _bare(name: str) -> str:
    return _NO_LETTERS.sub("", name.lower())


def _read(flat: Members, size: int) -> PageFetch | None:
    """Returns the fetch that the members of an object describe; None if the object is no page.

    A page has a URL, and also a text or an HTTP status.
    """
    values = {
        field: next((value for name in names if (value := READ[field](flat.get(name))) is not None), None)
        for field, names in _NAMES.items()
    }
    request_url = next((url for name in _ASKED if (url := as_address(flat.get(name)))), None)
    # If a fetcher names the requested URL beside `url`, then `url` is the URL to which redirects led.
    if request_url is not None:
        values["final_url"] = values["final_url"] or values["url"]
        values["url"] = request_url
    if values["status"] is None:
        remarks = (_STATUS.search(text) for name in _REMARKS if isinstance(text := flat.get(name), str))
        values["status"] = next((int(match[1]) for match in remarks if match), None)
    # A URL alone does not make a page, because records of any API may have one. A text that is most of the object, or
    # an HTTP status, does.
    has_status = values["status"] is not None and not flat.keys().isdisjoint((*_HTTP, *_REMARKS))
    texts = [
        text
        for name, text in flat.items()
        if isinstance(text, str)
        and (
            name in _TEXTS
            or (len(text) > _SHARE * size and (has_status or is_page(text[:_HEAD_CHARS].encode("utf-8", "replace"))))
        )
    ]
    if not (values["url"] or values["final_url"]) or not (texts or has_status):
        return None
    if values["title"] is None:
        values["title"] = READ["title"](_title_of(max(texts, key=len, default="")))
    return PageFetch(**values)


def _of_lines(sample: PayloadSample) -> PageFetch | None:
    """Returns the fetch that the lines above a page describe: labels with values, or a sentence with the page's URL."""
    flat: Members = {}
    labels, size = 0, 0
    known = {*_OTHERS, *_REMARKS, *_ASKED, *chain.from_iterable(_NAMES.values())}
    for line in islice(sample.head[:_HEAD_CHARS].splitlines(keepends=True), _MAX_LINES):
        line_text = line.decode("utf-8", "replace").strip()
        label = _LABEL.fullmatch(line_text)
        if (sentence := _SENTENCE.fullmatch(line_text)) and not labels:
            size += len(line)
            # A sentence introduces a page only with a colon at its end. Any other sentence counts only if it says what
            # failed.
            status = _STATUS.search(sentence[2])
            if sentence[2] != ":" and (status is None or sample.size > _FAILURE):
                return None
            flat |= {"url": sentence[1], "httpstatus": status and status[1]}
            labels = _ENOUGH
            break
        if kind := _TYPE.match(line_text):
            flat["contenttype"] = kind[1]
        elif label and (bare := _bare(label[1])) in known:
            flat.setdefault(bare, (label[2] or "").strip("\"'"))
            labels += 1
        elif line_text.strip("-"):
            break
        size += len(line)
    text = sample.head[size:].decode("utf-8", "replace")
    return _read({**flat, "text": text}, 0) if labels >= _ENOUGH else None


def _title_of(text: str) -> str | None:
    """Returns the title of a page that has no title beside it: the title in its own head, or its first heading."""
    if text.startswith("%PDF-"):  # a PDF that was stored as text, without its bytes beyond ASCII
        data = text.encode("utf-8", "replace")
        return pdf_title(PayloadSample(data, b"", len(data)))
    head = text[:_HEAD_CHARS].encode("utf-8", "replace")
    if is_page(head):
        return describe_page(PayloadProbe(PayloadSample(head, b"", len(head)), DeclaredMetadata())).title
    heading = _HEADING.search(text[:_HEAD_CHARS])
    return None if heading is None else (heading[1] or heading[2]).rstrip(" #\r")
