"""Reads one result from one item of a provider's list, by the names that its fields may have."""

import math
from typing import Final

from coatcheck.core.search.model import MAX_LINE, MAX_URL, SearchResult
from coatcheck.core.search.responses.canonical import canonical
from coatcheck.core.search.responses.dates import iso, iso_of_number
from coatcheck.core.search.responses.markup import format_of, one_line
from coatcheck.core.search.responses.providers import Fields
from coatcheck.core.search.responses.values import Record, folded, found, is_url, items_of, record_of, text_of, texts_of

_MAYBE: Final = frozenset({"source", "id", "metadata.source"})
"""Members that contain a URL with some providers and something else with others."""
_MOST_EXCERPTS: Final = 50
_SHOWN_DATE: Final = 80


def read_result(item: object, fields: Fields, rank: int, listed: str) -> SearchResult | None:
    """Returns the result in an item; None for one without a URL and without a title and text."""
    if isinstance(item, str) and is_url(item.strip()):
        return SearchResult(rank=rank, url=item.strip(), canonical_url=canonical(item), listed=listed)
    members = record_of(item)
    if members is None:
        return None
    record = folded(members)
    url = _url(record, fields)
    title = one_line(_text(record, fields.title))[:MAX_LINE]
    snippet = _text(record, fields.snippet)
    content = _long(record, fields.content, snippet)
    more = _excerpts(record, fields.more, (snippet, content))
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
        format=format_of(content or snippet),
        date=date,
        date_iso=when,
        score=_number(record, fields.score),
        site=_name(record, fields.site),
        language=_name(record, fields.language),
        author=_name(record, fields.author),
        listed=listed,
    )


def _values(record: Record, names: tuple[str, ...]) -> list[tuple[str, object]]:
    """Returns the record's values under any of the names, most informative first."""
    out: list[tuple[str, object]] = []
    for name in names:
        if "." in name:
            if name.partition(".")[0].partition("[")[0] in record:
                out += [(name, value) for value in found(record, name)]
        elif name in record:
            out.append((name, record[name]))
    return out


def _url(record: Record, fields: Fields) -> str | None:
    for name, value in _values(record, fields.url):
        text = value.strip() if isinstance(value, str) else ""
        if not text or len(text) > MAX_URL or any(sign.isspace() for sign in text):
            continue
        if is_url(text) or (name not in _MAYBE and ("." in text or "/" in text)):
            return text_of(text)
    return None


def _text(record: Record, names: tuple[str, ...]) -> str:
    return next(
        (text for _, value in _values(record, names) if isinstance(value, str) and (text := text_of(value))), ""
    )


def _long(record: Record, names: tuple[str, ...], snippet: str) -> str:
    """Returns the first text that is not the snippet; the blocks of a list are its paragraphs."""
    for _, value in _values(record, names):
        text = text_of(value) if isinstance(value, str) else "\n\n".join(texts_of(value))
        if text and text != snippet:
            return text
    return ""


def _excerpts(record: Record, names: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    texts = [text for _, value in _values(record, names) for text in texts_of(value)]
    return tuple(text for text in dict.fromkeys(texts) if text not in others)[:_MOST_EXCERPTS]


def _date(record: Record, fields: Fields) -> tuple[str | None, str | None]:
    """Returns the most informative date as given, and as ISO if it is unambiguous, which is preferred."""
    given: str | None = None
    for _, value in _values(record, fields.date):
        items = items_of(value)
        each = value if items is None else next(iter(items), None)
        if isinstance(each, (int, float)) and not isinstance(each, bool):
            when = iso_of_number(float(each)) if math.isfinite(each) else None
            if when is not None:
                return text_of(each), when
            continue
        text = " ".join(text_of(each).split())[:_SHOWN_DATE]
        if text and (when := iso(text)) is not None:
            return text, when
        given = given or text or None
    return given, None


def _number(record: Record, names: tuple[str, ...]) -> float | None:
    for _, value in _values(record, names):
        try:
            number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
        except (ValueError, OverflowError):
            continue
        if math.isfinite(number):
            return number
    return None


def _name(record: Record, names: tuple[str, ...]) -> str | None:
    """Returns a short name: a string, the names in a list, or the name of an object; never a URL."""
    for _, value in _values(record, names):
        inner = record_of(value)
        each = inner.get("name") if inner is not None else value
        text = text_of(each) if isinstance(each, str) else ", ".join(texts_of(each))
        if text and not is_url(text):
            return one_line(text)[:MAX_LINE]
    return None
