"""Dates as providers write them, as ISO 8601, where they can mean only one day.

`03/04/2026` can mean two, `2 days ago` depends on when it was said: both stay as they are. A time without a zone stays
without one. No clock is read.
"""

import re
from collections.abc import Callable
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
_CLOCK: Final = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d{1,9})?)?"
_ZONE: Final = r"\s*(Z|UTC|GMT|[+-]\d{2}:?\d{2})?"
_WORD: Final = r"([^\W\d_]{3,10})\.?"
_NUMERIC: Final = re.compile(rf"(\d{{4}})([-/.])(\d{{1,2}})\2(\d{{1,2}})(?:[T ,]\s*{_CLOCK}{_ZONE})?")
_CJK: Final = re.compile(rf"(\d{{4}})\s?[年년]\s?(\d{{1,2}})\s?[月월]\s?(\d{{1,2}})\s?[日일]?(?:\s*{_CLOCK}{_ZONE})?")
_DAY_FIRST: Final = re.compile(
    rf"(?:[^\W\d_]{{2,10}}\.?,\s*)?(\d{{1,2}})(?:st|nd|rd|th|\.|er)?(?:\s+de)?[\s-]+{_WORD}(?:\s+de)?[\s,-]+(\d{{4}})"
    rf"(?:[ ,]\s*{_CLOCK}{_ZONE})?"
)
_MONTH_FIRST: Final = re.compile(
    rf"(?:[^\W\d_]{{2,10}}\.?,\s*)?{_WORD}\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}})"
    rf"(?:(?:[ ,]|\s+at)\s*{_CLOCK}{_ZONE})?"
)
_SLASHED: Final = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})")
_LONGEST: Final = 64
_SECONDS: Final = (315_532_800.0, 4_102_444_800.0)
"""Of a number that is taken for seconds since 1970: from 1980 to 2100. A thousand times that: milliseconds."""
_MONTHS_OF_YEAR: Final = 12


def iso(text: str) -> str | None:
    """`2026-11-19` or `2026-11-19T10:00:00Z`; None where it could mean another day, or none."""
    text = " ".join(text[: _LONGEST + 1].split())
    if not text or len(text) > _LONGEST:
        return None
    for pattern, read in _READERS:
        match = pattern.fullmatch(text)
        if match is not None:
            return read(match)
    return None


def iso_of_number(number: float) -> str | None:
    """The same for a moment in seconds or milliseconds since 1970."""
    least, most = _SECONDS
    seconds = number / 1000 if number >= least * 1000 else number
    if not least <= seconds <= most:
        return None
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _numeric(match: re.Match[str]) -> str | None:
    year, _, month, day, *clock = match.groups()
    return _put(year, int(month), day, clock)


def _cjk(match: re.Match[str]) -> str | None:
    year, month, day, *clock = match.groups()
    return _put(year, int(month), day, clock)


def _day_first(match: re.Match[str]) -> str | None:
    day, month, year, *clock = match.groups()
    return _put(year, _MONTHS.get(month.lower(), 0), day, clock)


def _month_first(match: re.Match[str]) -> str | None:
    month, day, year, *clock = match.groups()
    return _put(year, _MONTHS.get(month.lower(), 0), day, clock)


def _slashed(match: re.Match[str]) -> str | None:
    """Only where one of two numbers can be no month, or both are the same, or dots say that the day comes first."""
    first, sign, second, year = match.groups()
    one, two = int(first), int(second)
    if sign == "." or one > _MONTHS_OF_YEAR or one == two:
        return _put(year, two, first, [])
    return _put(year, one, second, []) if two > _MONTHS_OF_YEAR else None


_READERS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]], ...]] = (
    (_NUMERIC, _numeric),
    (_CJK, _cjk),
    (_DAY_FIRST, _day_first),
    (_MONTH_FIRST, _month_first),
    (_SLASHED, _slashed),
)


def _put(year: str, month: int, day: str, clock: list[str | None]) -> str | None:
    try:
        when = date(int(year), month, int(day)).isoformat()
    except ValueError:
        return None
    hour, minute, second, zone = clock or [None] * 4
    if hour is None or minute is None:
        return when
    if not (int(hour) < 24 and int(minute) < 60 and int(second or 0) < 60):  # noqa: PLR2004 - a clock's
        return when
    return f"{when}T{int(hour):02}:{minute}:{second or '00'}{_zone(zone)}"


def _zone(zone: str | None) -> str:
    if zone is None:
        return ""
    if zone in {"Z", "UTC", "GMT"} or zone.strip("+-:0") == "":
        return "Z"
    return zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
