"""Reads JSON of any form by paths, never raising; dates as ISO 8601; and results wrapped in XML-like elements.

A path consists of names joined by dots. `[]` after a name selects all items of a list; `[name=value]` selects only the
items in which the member `name` has this value. Names are compared without case, `_` and `-`, so `publishedDate` equals
`published_date`. A string that contains a JSON document counts as that document. If a value is missing or has another
type, nothing is found; this is no error.

Dates are converted only if they are unambiguous: `03/04/2026` can mean two days, and the meaning of `2 days ago`
depends on when it was written, so both stay as they are. A time without a zone stays without one. The current time is
never read.

Elements, such as `<document><source>…</source>…</document>`, need not be well-formed documents. They are read in one
linear pass without a parser; entities are decoded, and a wrapper inside a wrapper of the same name is not supported.
"""

import html
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from itertools import islice
from typing import Final, cast

import msgspec

from coatcheck.core.caches import remember
from coatcheck.core.search.model import CUT_MARK, MAX_TEXT
from coatcheck_client.contract.canonical import MAX_URL

Record = dict[str, object]

_STEP: Final = re.compile(r"([^.\[\]]*)(\[([^=\]]*)(?:=([^\]]*))?\])?(?:\.|$)")
_URL: Final = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]{1,20}:)?//[^\s/]\S*")
_DOCUMENT_CHARS: Final = 4_000_000
"""Characters above which a string is not searched for a JSON document inside it."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CACHED_CHARS: Final = 64
"""Maximum characters of a name whose compared form is cached, so that the cache's memory is bounded."""
_MAX_NAMES: Final = 400
"""Maximum names of one object that are compared with the wanted name."""
_MAX_ITEMS: Final = 2_000
"""Maximum items of one list that are read."""
_FLOAT_DIGITS: Final = 15
"""Decimal digits that every double keeps (IEEE 754 binary64); more digits would show its rounding."""


def key(name: str) -> str:
    """Returns a name in the form in which names are compared: in lower case, without `_` and `-`."""
    return _known_key(name) if len(name) <= _CACHED_CHARS else _key(name)


def _key(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_known_key: Final = remember("names", 2_048, 290)(_key)
"""`_key` with a cache, since the same names occur in every result."""


def fold_names(record: Record) -> Record:
    """Returns a record with its names in compared form; of two names that become equal, the first counts."""
    out: Record = {}
    for name, value in record.items():
        out.setdefault(key(name), value)
    return out


def decode_document(value: object, depth: int = 2) -> object:
    """Returns a value; if it is a string with a JSON document, the document.

    `depth` limits how often a document may be the text of another document.
    """
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
    """Returns a value as an object with string names; None if it is no object."""
    inner = decode_document(value)
    return cast("Record", inner) if isinstance(inner, dict) else None


def items_of(value: object) -> list[object] | None:
    """Returns the first `_MAX_ITEMS` items of a list; None if the value is no list."""
    inner = decode_document(value)
    return cast("list[object]", inner)[:_MAX_ITEMS] if isinstance(inner, list) else None


def find_values(value: object, path: str) -> list[object]:
    """Returns all values that a path leads to, in order. The empty path leads to the value itself."""
    values = [value]
    # Take each step from all values reached so far. A step that leads nowhere leaves no values.
    for name, goes_in, member, expected in _steps(path):
        values = [child for each in values for child in _child(each, name)]
        if goes_in:
            values = [item for each in values for item in items_of(each) or ()]
        if member:
            values = [item for item in values if text_of(_first(record_of(item), member)) == expected]
    return values


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
    """Returns the first name of a path in compared form; empty if the path begins inside a list."""
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
    """Returns the first text that one of the paths leads to, trying the paths in order; empty if none does."""
    return next((text for path in paths for each in find_values(value, path) if (text := text_of(each))), "")


def holds(value: object, condition: str) -> bool:
    """Returns whether a path leads to any value, or, for `path==text`, to this text."""
    path, equals, expected = condition.partition("==")
    matches = find_values(value, path)
    return any(text_of(each) == expected for each in matches) if equals else bool(matches)


def text_of(value: object) -> str:
    """Returns the text of a string, number or truth value, fit to be shown; empty for everything else."""
    if isinstance(value, str):
        text = value.strip() if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT].strip()}{CUT_MARK}"
        return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.{_FLOAT_DIGITS}g}" if isinstance(value, (int, float)) and abs(value) < 10.0**_FLOAT_DIGITS else ""


def texts_of(value: object) -> list[str]:
    """Returns the texts of a list of strings, or of objects with a text; a single string is a list of one."""
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
    """Returns whether a value is null, a truth value or a number, and so cannot contain other values."""
    return value is None or isinstance(value, (bool, int, float))


def is_empty(value: object) -> bool:
    """Returns whether a member's value is empty: null, false, zero, or an empty string, list or object."""
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
"""The unambiguous forms of dates, with or without a time."""
_SLASHED: Final = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})")
_DATE_CHARS: Final = 64
"""Characters above which a text is no date: the longest form, with a weekday, a time and a zone, has about 50."""
_SECONDS_RANGE: Final = (315_532_800.0, 4_102_444_800.0)
"""Range of numbers that are read as seconds since 1970, from 1980 to 2100; milliseconds are a thousand times larger."""


def iso(text: str) -> str | None:
    """Returns a date as `2026-11-19` or `2026-11-19T10:00:00Z`; None if the text is ambiguous or not a date."""
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
    """Returns a time in seconds or milliseconds since 1970 as ISO 8601; None for a time before 1980 or after 2099."""
    least, most = _SECONDS_RANGE
    seconds = number / 1000 if number >= least * 1000 else number
    if not least <= seconds <= most:
        return None
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _parse_slashed_date(first: str, sign: str, second: str, year: str) -> str | None:
    """Returns the date of day, month and year, or month, day and year; None if the order is ambiguous.

    The order is known if one of the two numbers cannot be a month, if both are equal, or if dots separate them: then
    the day is first.
    """
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
    """Returns the time of day that follows the date in ISO 8601; empty if there is none or if it is invalid."""
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
"""Maximum elements of one text that are read: more than MAX_RESULTS, since not every element becomes a result. Chosen,
not measured."""
_MAX_CHILDREN: Final = 40
"""Maximum children of one element that are read as members; the rest becomes its text. Chosen, not measured."""


def elements(text: str) -> tuple[str, list[dict[str, object]]]:
    """Returns the text before the first wrapper, and a record for each wrapper with an address."""
    if "<" not in text:
        return text, []
    out: list[dict[str, object]] = []
    first, at = 0, 0
    while len(out) < _MAX_WRAPPERS and (match := _OPEN.search(text, at)) is not None:
        name, attributes, closed = match.groups()
        record: dict[str, object] = {
            pair[1].lower(): html.unescape(pair[2] or pair[3] or "") for pair in _ATTRIBUTE.finditer(attributes)
        }
        # A wrapper that is never closed ends the list, because the rest of the text would count as its content.
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
    """Adds the children of an element to its record as members; text outside the children becomes the content."""
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
        # Members of a metadata wrapper are added to the result itself.
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
