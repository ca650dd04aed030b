"""Converts providers' dates to ISO 8601, if they are unambiguous.

`03/04/2026` can mean two days, and `2 days ago` depends on when it was written: both stay as they are. A time without a
zone stays without one. No clock is read.
"""

import re
from datetime import UTC, date, datetime
from typing import Final

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
_LONGEST: Final = 64
_SECONDS: Final = (315_532_800.0, 4_102_444_800.0)
"""Range of a number that is taken for seconds since 1970: from 1980 to 2100. A thousand times that: milliseconds."""
_MONTHS_OF_YEAR: Final = 12


def iso(text: str) -> str | None:
    """Returns `2026-11-19` or `2026-11-19T10:00:00Z`; None if the text is ambiguous or not a date."""
    text = " ".join(text[: _LONGEST + 1].split())
    if not text or len(text) > _LONGEST:
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
    least, most = _SECONDS
    seconds = number / 1000 if number >= least * 1000 else number
    if not least <= seconds <= most:
        return None
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _parse_slashed_date(first: str, sign: str, second: str, year: str) -> str | None:
    """Returns a date if one of two numbers cannot be a month, both are equal, or dots show that the day comes first."""
    one, two = int(first), int(second)
    if sign == "." or one > _MONTHS_OF_YEAR or one == two:
        return _day(year, two, first)
    return _day(year, one, second) if two > _MONTHS_OF_YEAR else None


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
