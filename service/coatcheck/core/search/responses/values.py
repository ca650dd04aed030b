"""Reads JSON of any form by paths, never raising; dates as ISO 8601; and results wrapped in XML-like elements.

A path is names joined by dots; `[]` after a name goes through the items of a list, `[name=value]` through those items
with that member. Names are compared without case, `_` and `-`, so `publishedDate` equals `published_date`. A string
that contains a JSON document counts as that document. What is missing, or of another type, is simply not found.

Dates are converted only if they are unambiguous: `03/04/2026` can mean two days, and `2 days ago` depends on when it
was written, so both stay as they are. A time without a zone stays without one. No clock is read.

Elements, such as `<document><source>…</source>…</document>`, need not be well-formed documents, and their contents are
taken as they are: one linear pass, no parser, only common entities, no nesting of a wrapper in another of its name.
"""

import html
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from itertools import islice
from typing import Final, cast

import msgspec

from coatcheck.core.caches import remember
from coatcheck.core.search.model import MAX_TEXT
from coatcheck_client.contract.canonical import MAX_URL

Record = dict[str, object]

_STEP: Final = re.compile(r"([^.\[\]]*)(\[([^=\]]*)(?:=([^\]]*))?\])?(?:\.|$)")
_URL: Final = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]{1,20}:)?//[^\s/]\S*")
_DOCUMENT_CHARS: Final = 4_000_000
"""Maximum characters of a string that is searched for a document inside it."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CACHED_CHARS: Final = 64
"""Maximum characters of a name whose compared form is cached, so that the cache's memory is bounded."""
_MAX_NAMES: Final = 400
"""Names of one object that are compared."""
_MAX_ITEMS: Final = 2_000
"""Items of one list that are read."""
_FLOAT_DIGITS: Final = 15
"""Decimal digits that every double keeps (IEEE 754 binary64); more would show its rounding."""


def key(name: str) -> str:
    """Returns a name in compared form."""
    return _known_key(name) if len(name) <= _CACHED_CHARS else _key(name)


def _key(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_known_key: Final = remember("names", 2_048, 290)(_key)
"""`_key`, cached: the same names occur in every result."""


def fold_names(record: Record) -> Record:
    """Returns a record under compared names; of two that coincide, the first counts."""
    out: Record = {}
    for name, value in record.items():
        out.setdefault(key(name), value)
    return out


def decode_document(value: object, depth: int = 2) -> object:
    """Returns a value, or the document in a string."""
    if not isinstance(value, str) or depth == 0 or len(value) > _DOCUMENT_CHARS:
        return value
    text = value.strip()
    if text[:1] + text[-1:] not in {"{}", "[]", '""'} or len(text) < 2:  # noqa: PLR2004 - brackets
        return value
    try:
        return decode_document(msgspec.json.decode(text), depth - 1)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return value


def record_of(value: object) -> Record | None:
    """Returns a value as an object with string names, if it is one."""
    inner = decode_document(value)
    return cast("Record", inner) if isinstance(inner, dict) else None


def items_of(value: object) -> list[object] | None:
    """Returns a value as a list, if it is one, as far as it is read."""
    inner = decode_document(value)
    return cast("list[object]", inner)[:_MAX_ITEMS] if isinstance(inner, list) else None


def find_values(value: object, path: str) -> list[object]:
    """Returns everything that a path leads to, in order. The empty path leads to the value itself."""
    here = [value]
    # Step by step from all values so far; a step that leads nowhere leaves none.
    for name, goes_in, member, expected in _steps(path):
        here = [child for each in here for child in _child(each, name)]
        if goes_in:
            here = [item for each in here for item in items_of(each) or ()]
        if member:
            here = [item for item in here if text_of(_first(record_of(item), member)) == expected]
    return here


@remember("names", 1_024, 700)
def _steps(path: str) -> tuple[tuple[str, bool, str, str], ...]:
    steps = [match.groups() for match in _STEP.finditer(path) if match.group()]
    return tuple(
        (key(name), bool(inside), key(member or ""), expected or "") for name, inside, member, expected in steps
    )


def _child(value: object, name: str) -> Iterable[object]:
    if not name:
        return (value,)
    record = record_of(value)
    if record is None:
        return ()
    member = _first(record, name, missing=_MISSING)
    return () if member is _MISSING else (member,)


def head(condition: str) -> str:
    """Returns the name that a path begins with, in compared form; empty if it goes into a list."""
    return _steps(condition.partition("==")[0])[0][0]


_MISSING: Final = object()


def _first(record: Record | None, name: str, missing: object = None) -> object:
    if record is None:
        return missing
    if name in record:
        return record[name]
    return next(
        (value for member_name, value in islice(record.items(), _MAX_NAMES) if key(member_name) == name), missing
    )


def text_at(value: object, *paths: str) -> str:
    """Returns the first text that one of the paths leads to, the paths in order; empty where none does."""
    return next((text for path in paths for each in find_values(value, path) if (text := text_of(each))), "")


def holds(value: object, condition: str) -> bool:
    """Returns whether a path leads anywhere, or, for `path==text`, to that text."""
    path, equals, expected = condition.partition("==")
    there = find_values(value, path)
    return any(text_of(each) == expected for each in there) if equals else bool(there)


def text_of(value: object) -> str:
    """Returns a string that can be shown, or that of a number or truth value; empty for everything else."""
    if isinstance(value, str):
        text = value[:MAX_TEXT].strip()
        return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.{_FLOAT_DIGITS}g}" if isinstance(value, (int, float)) and abs(value) < 10.0**_FLOAT_DIGITS else ""


def texts_of(value: object) -> list[str]:
    """Returns the strings of a list of strings, or of objects with a text; a single string is one."""
    if isinstance(value, str):
        return [text] if (text := text_of(value)) else []
    out: list[str] = []
    for item in items_of(value) or ():
        record = record_of(item)
        members = (_first(record, name) for name in ("text", "content", "snippet", "highlight"))
        text = text_of(item) if record is None else next((t for member in members if (t := text_of(member))), "")
        if text:
            out.append(text)
    return out


def is_url(text: str) -> bool:
    """Returns whether a text begins like an absolute URL and has no blanks."""
    return len(text) <= MAX_URL and _URL.fullmatch(text) is not None


def is_plain(value: object) -> bool:
    """Returns whether a value cannot contain others."""
    return value is None or isinstance(value, (bool, int, float))


def is_empty(value: object) -> bool:
    """Returns whether a member is empty."""
    return value is None or value in ("", False, 0) or (isinstance(value, (list, dict)) and not value)


_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janvier enero ene gennaio gen janeiro januari",
            "february feb februar février fevrier févr febrero febbraio fevereiro fev februari",
            "march mar märz mars marzo março marco maart",
            "april apr avril avr abril abr aprile",
            "may mai mayo maggio maio mag mei",
            "june jun juni juin junio giugno giu junho",
            "july jul juli juillet juil julio luglio lug julho",
            "august aug août aout agosto ago augustus",
            "september sep sept septembre septiembre settembre set setembro",
            "october oct oktober okt octobre octubre ottobre ott outubro out",
            "november nov novembre noviembre novembro",
            "december dec dezember dez décembre déc diciembre dic dicembre dezembro decembre",
        ),
        1,
    )
    for name in names.split()
}
_CLOCK: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d{1,9})?)?"
_ZONE: Final = r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?"
_WORD: Final = r"(?P<month>[^\W\d_]{3,10})\.?"
_YEAR: Final = r"(?P<year>\d{4})"
_MONTH: Final = r"(?P<month>\d{1,2})"
_DAY: Final = r"(?P<day>\d{1,2})"
_WEEKDAY: Final = r"(?:[^\W\d_]{2,10}\.?,\s*)?"
_FORMS: Final = (
    re.compile(rf"{_YEAR}(?P<sign>[-/.]){_MONTH}(?P=sign){_DAY}(?:[T ,]\s*{_CLOCK}{_ZONE})?"),
    re.compile(rf"{_YEAR}\s?[年년]\s?{_MONTH}\s?[月월]\s?{_DAY}\s?[日일]?(?:\s*{_CLOCK}{_ZONE})?"),
    re.compile(
        rf"{_WEEKDAY}{_DAY}(?:st|nd|rd|th|\.|er)?(?:\s+de)?[\s-]+{_WORD}(?:\s+de)?[\s,-]+{_YEAR}"
        rf"(?:[ ,]\s*{_CLOCK}{_ZONE})?"
    ),
    re.compile(rf"{_WEEKDAY}{_WORD}\s+{_DAY}(?:st|nd|rd|th)?,?\s+{_YEAR}(?:(?:[ ,]|\s+at)\s*{_CLOCK}{_ZONE})?"),
)
"""Unambiguous forms."""
_SLASHED: Final = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})")
_DATE_CHARS: Final = 64
"""Characters above which a text is no date: the longest form, with a weekday, a clock and a zone, has about 50."""
_SECONDS_RANGE: Final = (315_532_800.0, 4_102_444_800.0)
"""Range of a number that is taken for seconds since 1970: from 1980 to 2100. A thousand times that: milliseconds."""


def iso(text: str) -> str | None:
    """Returns `2026-11-19` or `2026-11-19T10:00:00Z`; None if the text is ambiguous or not a date."""
    text = " ".join(text[: _DATE_CHARS + 1].split())
    if not text or len(text) > _DATE_CHARS:
        return None
    for form in _FORMS:
        if (match := form.fullmatch(text)) is not None:
            month = match["month"]
            day = _day(match["year"], int(month) if month.isdigit() else _MONTHS.get(month.lower(), 0), match["day"])
            return day and day + _time(match)
    match = _SLASHED.fullmatch(text)
    return None if match is None else _parse_slashed_date(*match.groups())


def iso_of_number(number: float) -> str | None:
    """Returns a moment in seconds or milliseconds since 1970 as ISO 8601; None for one before 1980 or after 2099."""
    least, most = _SECONDS_RANGE
    seconds = number / 1000 if number >= least * 1000 else number
    if not least <= seconds <= most:
        return None
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _parse_slashed_date(first: str, sign: str, second: str, year: str) -> str | None:
    """Returns a date if one of two numbers cannot be a month, both are equal, or dots show that the day comes first."""
    one, two = int(first), int(second)
    if sign == "." or one > 12 or one == two:  # noqa: PLR2004 - months
        return _day(year, two, first)
    return _day(year, one, second) if two > 12 else None  # noqa: PLR2004 - months


def _day(year: str, month: int, day: str) -> str | None:
    try:
        return date(int(year), month, int(day)).isoformat()
    except ValueError:
        return None


def _time(match: re.Match[str]) -> str:
    """Returns the time of day to append in ISO 8601; empty if there is none, or it is invalid."""
    hour, minute, second, zone = match.group("hour", "minute", "second", "zone")
    if hour is None or not (int(hour) < 24 and int(minute) < 60 and int(second or 0) < 60):  # noqa: PLR2004 - a clock's
        return ""
    return f"T{int(hour):02}:{minute}:{second or '00'}{_zone(zone)}"


def _zone(zone: str | None) -> str:
    if zone is None:
        return ""
    if zone in {"Z", "UTC", "GMT"} or zone.strip("+-:0") == "":
        return "Z"
    return zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"


_OPEN: Final = re.compile(
    r"<(document|search_result|searchresult|result|source|item|entry|webpage|page)\b([^<>]{0,4000}?)(/?)>",
    re.IGNORECASE,
)
_ATTRIBUTE: Final = re.compile(r"([\w:-]{1,40})\s*=\s*(?:\"([^\"<>]*)\"|'([^'<>]*)')")
_CHILD: Final = re.compile(r"<([a-zA-Z][\w:-]{0,40})(?:\s[^<>]{0,1000})?>", re.IGNORECASE)
_CDATA: Final = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_WRAPPERS: Final = frozenset({"metadata", "meta", "documents", "results"})
_ELEMENT_NAMES: Final = {
    "documentcontent": "content",
    "document_content": "content",
    "pubdate": "published_date",
    "page_content": "content",
    "content:encoded": "content",
}
_MAX_WRAPPERS: Final = 1_000
"""Elements of one text that are read: more than MAX_RESULTS, since not every one becomes a result. Chosen, not
measured."""
_MAX_CHILDREN: Final = 40
"""Children of one element that are read; the rest is its text. Chosen, not measured."""


def elements(text: str) -> tuple[str, list[dict[str, object]]]:
    """Returns what precedes the first wrapper, and a record for each; none if wrappers contain no addresses."""
    if "<" not in text:
        return text, []
    out: list[dict[str, object]] = []
    first, at = 0, 0
    while len(out) < _MAX_WRAPPERS and (match := _OPEN.search(text, at)) is not None:
        name, attributes, closed = match.groups()
        record: dict[str, object] = {
            pair[1].lower(): html.unescape(pair[2] or pair[3] or "") for pair in _ATTRIBUTE.finditer(attributes)
        }
        # A wrapper that is never closed ends the list: its content would be the rest of the text.
        at = match.end()
        if not closed:
            end = text.find(f"</{name}>", at)
            if end < 0:
                break
            _read(text[at:end], record)
            at = end + len(name) + 3
        if any("://" in str(record.get(key, "")) for key in ("url", "link", "href", "source", "uri")):
            first = first if out else match.start()
            out.append(record)
    return text[:first], out


def _read(inner: str, record: dict[str, object]) -> None:
    """Reads children as members; text outside them is the content."""
    at = 0
    rest: list[str] = []
    children = 0
    while children < _MAX_CHILDREN and (match := _CHILD.search(inner, at)) is not None:
        name = match.group(1)
        rest.append(inner[at : match.start()])
        if match.group().endswith("/>"):
            href = next((pair[2] or pair[3] for pair in _ATTRIBUTE.finditer(match.group()) if pair[1] == "href"), "")
            record.setdefault(name.lower(), html.unescape(href or ""))
            at = match.end()
            continue
        end = inner.find(f"</{name}>", match.end())
        if end < 0:
            at = match.start()
            break
        # Metadata are flattened into their result.
        if name.lower() in _WRAPPERS:
            _read(inner[match.end() : end], record)
        else:
            record.setdefault(_ELEMENT_NAMES.get(name.lower(), name.lower()), _text(inner[match.end() : end]))
        at = end + len(name) + 3
        children += 1
    rest.append(inner[at:])
    text = "\n".join(piece.strip() for piece in rest if piece.strip())
    if text:
        record.setdefault("content", _text(text))


def _text(inner: str) -> str:
    match = _CDATA.fullmatch(inner)
    return (match.group(1) if match else html.unescape(inner)).strip()
