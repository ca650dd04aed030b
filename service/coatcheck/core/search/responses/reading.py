"""Reads one result from one item of a provider's list, by the names that its fields may have.

A field without a known name is recognised by its form: a web address, a title by the end of its name, the longest text.
Members of objects inside the item count after the item's own members, so a wrapper around the fields needs no rule.
"""

import math
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from coatcheck.core.search.model import DATE_CHARS, MAX_LINE, SearchResult
from coatcheck.core.search.responses.markup import one_line
from coatcheck.core.search.responses.providers import Fields
from coatcheck.core.search.responses.values import (
    Record,
    find_values,
    fold_names,
    is_url,
    iso,
    iso_of_number,
    items_of,
    record_of,
    text_of,
    texts_of,
)
from coatcheck_client.contract.canonical import MAX_URL, canonical

_MAYBE: Final = frozenset({"source", "id", "metadata.source"})
"""Members that contain a URL in the responses of some providers and something else in those of others."""
_MAX_EXCERPTS: Final = 50
"""Maximum excerpts that are read of one result. Chosen, not measured."""
_MAX_DEPTH: Final = 3
"""Maximum depth of the objects inside an item that are read."""
_MAX_MEMBERS: Final = 200
"""Maximum members that are read of the objects inside an item, at each depth. Chosen, not measured."""
_BESIDE: Final = """
    icon image images thumbnail thumbnails favicon logo avatar profile author user owner channel publisher site metaurl
    error errors
    """
_ASIDE: Final = frozenset(_BESIDE.split())
"""Objects beside a result's fields. Addresses and names in them are not those of the result."""
_ADDRESSES: Final = ("url", "link", "uri", "href")
_PICTURE: Final = ("image", "img", "icon", "thumb", "logo", "avatar", "photo", "picture", "cache", "api", "next")
_TITLES: Final = ("title", "heading", "headline", "name")
_OTHER_NAMES: Final = ("sitename", "username", "hostname")
_TEXTS: Final = ("snippet", "excerpt", "description", "abstract", "summary", "content", "body", "text")
_NO_TEXTS: Final = ("url", "link", "uri", "href", "id", "date", "time", "key", "token", "hash", "type", "query", "name")
"""Ends of the names of members whose text is not for readers."""
_MIN_TEXT_BLANKS: Final = 3
"""Minimum blanks of a text without a known name; a text with fewer is a label."""


def read_result(item: object, fields: Fields, rank: int) -> SearchResult | None:
    """Returns the result in an item; None if the item has no URL, and does not have both a title and a text."""
    if isinstance(item, str) and is_url(item.strip()):
        return SearchResult(rank=rank, url=item.strip(), canonical_url=canonical(item))
    members = record_of(item)
    if members is None:
        return None
    record = _levels(members)
    # Known names come first. A field without a known name is recognised by its form.
    url = _url(record, fields) or _other_url(record)
    title = one_line(_text(record, fields.title) or _find_named_text(record, _TITLES))[:MAX_LINE]
    snippet = _text(record, fields.snippet)
    content = _long(record, fields.content, snippet)
    more = _excerpts(record, fields.more, (snippet, content))
    # Some providers repeat the title as content.
    content = "" if content == title else content
    # Only for a result with an address, since any record has some longest text.
    if url and not (snippet or content or more):
        snippet = _find_named_text(record, _TEXTS) or _other_text(record, title)
    # An item with neither an address nor a text is a suggestion, a filter or a category.
    if url is None and not (title and (snippet or content or more)):
        return None
    date, when = _date(record, fields)
    return SearchResult(
        rank=rank,
        title=title,
        url=url,
        canonical_url=canonical(url) if url else None,
        snippet=snippet,
        more=more,
        content=content,
        date=date,
        date_iso=when,
        score=_number(record, fields.score),
        site=_name(record, fields.site),
        author=_name(record, fields.author),
        picture=_picture(record, url),
    )


Levels = tuple[Record, Record]
"""An item's own members, and the members of the objects inside it, both under compared names."""


def _levels(members: Record) -> Levels:
    own = fold_names(members)
    inner: Record = {}
    level = [own]
    for _ in range(_MAX_DEPTH):
        # Breadth first and without overwriting, so that an outer member counts before an inner one with the same name.
        values = (value for each in level for name, value in each.items() if name not in _ASIDE)
        level = [fold_names(record) for value in values if not isinstance(value, str) and (record := record_of(value))]
        for name, value in islice((pair for each in level for pair in each.items()), _MAX_MEMBERS):
            inner.setdefault(name, value)
    return own, inner


def _values(levels: Levels, names: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    """Yields the values under any of the names, the most informative name first, own members before inner ones."""
    own, inner = levels
    for name in names:
        if "." in name:
            if name.partition(".")[0].partition("[")[0] in own:
                yield from ((name, value) for value in find_values(own, name))
        elif name in own:
            yield name, own[name]
    yield from ((name, inner[name]) for name in names if name in inner)


def _url(record: Levels, fields: Fields) -> str | None:
    for name, value in _values(record, fields.url):
        text = value.strip() if isinstance(value, str) else ""
        if not text or len(text) > MAX_URL or any(sign.isspace() for sign in text):
            continue
        if is_url(text) or (name not in _MAYBE and ("." in text or "/" in text)):
            return text_of(text)
    return None


def _strings(record: Levels) -> Iterable[tuple[str, str]]:
    return ((name, value.strip()) for level in record for name, value in level.items() if isinstance(value, str))


def _other_url(record: Levels) -> str | None:
    """Returns the first web address whose name ends like that of an address, unless the name is that of a picture."""
    return next(
        (
            value
            for name, value in _strings(record)
            if name.endswith(_ADDRESSES)
            and value.startswith(("http://", "https://"))
            and is_url(value)
            and not any(sign in name for sign in _PICTURE)
        ),
        None,
    )


def _find_named_text(record: Levels, ends: tuple[str, ...]) -> str:
    """Returns the first text under a name with one of the ends; of an object or list, the text in it."""
    for level in record:
        for name, value in level.items():
            if name.endswith(ends) and not name.startswith("encrypted") and not name.endswith(_OTHER_NAMES):
                text = text_of(value) if isinstance(value, str) else next(iter(_texts_in(value)), "")
                if text and not is_url(text) and not text.isdigit():
                    return text
    return ""


def _texts_in(value: object) -> list[str]:
    """Returns the texts of a list, or of an object with a text."""
    return texts_of(value if items_of(value) is not None else [value])


def _other_text(record: Levels, title: str) -> str:
    """Returns the longest text under a name that does not say what it is, other than the title; empty if none."""
    texts = [
        text_of(value)
        for name, value in _strings(record)
        if not name.endswith(_NO_TEXTS) and value.count(" ") >= _MIN_TEXT_BLANKS and one_line(value) != title
    ]
    return max(texts, key=len, default="")


def _picture(record: Levels, url: str | None) -> str | None:
    """Returns the address of the picture that a result shows, other than its own address; None if there is none."""
    for _, value in _values(record, ("imageurl", "image", "original", "contenturl", "imglink")):
        if isinstance(value, str) and is_url(text := value.strip()) and text != url:
            return text
    return None


def _text(record: Levels, names: tuple[str, ...]) -> str:
    return next(
        (text for _, value in _values(record, names) if isinstance(value, str) and (text := text_of(value))), ""
    )


def _long(record: Levels, names: tuple[str, ...], snippet: str) -> str:
    """Returns the first text other than the snippet; a list becomes a text with a paragraph for each item."""
    for _, value in _values(record, names):
        text = text_of(value) if isinstance(value, str) else "\n\n".join(texts_of(value))
        if text and text != snippet:
            return text
    return ""


def _excerpts(record: Levels, names: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    texts = [text for _, value in _values(record, names) for text in texts_of(value)]
    return tuple(text for text in dict.fromkeys(texts) if text not in others)[:_MAX_EXCERPTS]


def _date(record: Levels, fields: Fields) -> tuple[str | None, str | None]:
    """Returns the first unambiguous date as it was given and in ISO form; if there is none, the first date and None."""
    first_date: str | None = None
    for _, value in _values(record, fields.date):
        items = items_of(value)
        each = value if items is None else next(iter(items), None)
        if isinstance(each, (int, float)) and not isinstance(each, bool):
            when = iso_of_number(float(each)) if abs(each) <= sys.float_info.max else None
            if when is not None:
                return text_of(each), when
            continue
        text = " ".join(text_of(each).split())[:DATE_CHARS]
        if text and (when := iso(text)) is not None:
            return text, when
        first_date = first_date or text or None
    return first_date, None


def _number(record: Levels, names: tuple[str, ...]) -> float | None:
    for _, value in _values(record, names):
        try:
            number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
        except (ValueError, OverflowError):
            continue
        if math.isfinite(number):
            return number
    return None


def _name(record: Levels, names: tuple[str, ...]) -> str | None:
    """Returns a short name, from a string, from the names in a list, or from an object; None if there is none."""
    for _, value in _values(record, names):
        inner = record_of(value)
        each = inner.get("name") if inner is not None else value
        text = text_of(each) if isinstance(each, str) else ", ".join(texts_of(each))
        if text and not is_url(text):
            return one_line(text)[:MAX_LINE]
    return None
