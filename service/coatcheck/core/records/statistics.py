"""Statistics of one field over many records: how often each value occurs, and the least and greatest number or time."""

import re
from collections import Counter
from collections.abc import Sequence
from math import isfinite
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct

VALUES: Final = 64
"""Maximum number of different values of a field that are counted."""
_CHARS: Final = 200
"""Maximum characters of a value that is counted."""
_THOUSANDS: Final = re.compile(r"\s*[-+]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?\s*", re.ASCII)
"""Matches a number with commas between its thousands, or without."""
_EUROPEAN: Final = re.compile(r"\s*[-+]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+\s*", re.ASCII)
"""Matches a number with a decimal comma, and with points between its thousands, or without."""
_NUMBER_CHARS: Final = frozenset("0123456789.+-eE ")
"""Characters of numbers as programs write them."""
_UNIT: Final = re.compile(r"(\s*[-+]?[\d.,]*\d(?:[eE][-+]?\d+)?)(\s?(?:%|[a-zA-Zµ]{1,5}))?\s*", re.ASCII)
_TIME: Final = re.compile(
    r"(\d{4}([-/.])\d\d\2\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?)(Z| ?[+-]\d\d:?\d\d(?: [A-Z]{3,4})?)?",
    re.ASCII,
)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = rf"((?i:{'|'.join(_MONTHS)}))[a-z]{{0,6}}\.?"
_CLOCK: Final = r"(\d\d:\d\d(?::\d\d)?)"
_DAY_FIRST: Final = re.compile(
    rf"(?:[A-Za-z]{{3}},? )?(\d{{1,2}})[ /-]{_MONTH}[ /-](\d{{4}})(?:[ :]{_CLOCK})?"
    r"( ?(?:[+-]\d\d:?\d\d|[A-Z]{3,4}))?",
    re.ASCII,
)
_MONTH_FIRST: Final = re.compile(
    rf"(?:[A-Za-z]{{3}} )?{_MONTH} +(\d{{1,2}}),?(?: {_CLOCK})?( [A-Z]{{3,4}})? (\d{{4}})( [A-Z]{{3,4}}| [+-]\d{{4}})?",
    re.ASCII,
)
"""Match times with the name of a month, as mails and feeds have them, and as `date` prints them."""
_DIGITS: Final = re.compile(r"\d")
_SECONDS: Final = 19
"""Characters of a time including its seconds, without their fraction."""
_HUGE: Final = 1 << 1000
"""Bound of the numbers that are compared: every integer below it can be converted to a float."""
MAX_PER_SIDE: Final = 2
"""Maximum outliers at each end of the numbers; if more are far from the others, none is an outlier."""
_IS_NUMBER: Final = "number"
_IS_TIME: Final = "time"


class Extreme(Struct, frozen=True):
    """The least or the greatest value of a field."""

    value: object
    """As the payload has it."""
    record: int
    """The number of the first record that has it, from 0; -1: not known."""
    alone: bool
    """Whether no other record has it."""


class FieldStatistic(Struct, frozen=True):
    """The statistics of a field, of all records that have it."""

    present: int
    """Records that have it."""
    counts: Counter[object] | None
    """How often each value occurs; None: there are more than 64 different values, a long one, or truth values among
    others."""
    least: Extreme | None = None
    greatest: Extreme | None = None
    """This and `least` are None unless all values are numbers, or all are times in one format."""
    is_number: bool = False


Keys = Sequence[float] | Sequence[str]


def examine(values: Sequence[object]) -> FieldStatistic:
    """Returns the statistics of a field.

    `values` has one value per record, in order; None or an empty text if the record has none.
    """
    present_values = [each for each in values if each is not None and each != ""]
    counts = count_values(present_values)
    form, keys = make_sort_keys(present_values)
    if form is None:
        return FieldStatistic(len(present_values), counts)
    positions = [keys.index(min(keys)), keys.index(max(keys))]  # pyright: ignore[reportArgumentType]
    ends = [
        Extreme(present_values[at], values.index(present_values[at]), keys.count(keys[at]) == 1) for at in positions
    ]  # pyright: ignore[reportArgumentType]
    return FieldStatistic(len(present_values), counts, *ends, is_number=form[0] == _IS_NUMBER)


def count_values(values: Sequence[object], earlier_counts: Counter[object] | None = None) -> Counter[object] | None:
    """Returns how often each value occurs, added to `earlier_counts` in place if given.

    None if there are more than VALUES different ones, a long one, or truth values among others.
    """
    counts: Counter[object] = Counter() if earlier_counts is None else earlier_counts
    before = len(counts)
    types = {*map(type, values), *map(type, counts)}  # true and 1 are one value to a counter
    counts.update(values)
    if len(counts) > VALUES or (bool in types and len(types) > 1):
        return None
    long = len(counts) > before and any(isinstance(each, str) and len(each) > _CHARS for each in counts)
    return None if long else counts


def make_sort_keys(values: Sequence[object]) -> tuple[tuple[str, str] | None, Keys]:
    """Returns the form of values (numbers with their unit, or times) and the keys by which they are compared.

    The form is None, without keys, if values differ in their form, or a number is not finite.
    """
    types = {*map(type, values)}
    if types and types <= {int, float}:
        numbers = cast("Sequence[float]", values)
        # The bounds come first, because `isfinite` raises OverflowError for a huge integer.
        small = -_HUGE < min(numbers) <= max(numbers) < _HUGE
        finite = small and (float not in types or all(map(isfinite, numbers)))
        return ((_IS_NUMBER, ""), numbers) if finite else (None, ())
    texts = cast("Sequence[str]", values) if types == {str} else ()
    first = _TIME.fullmatch(texts[0]) if texts else None
    if first is not None:
        form, zone = _form(first), first[3] or ""
        digits = _DIGITS.sub("[0-9]", re.escape(first[1])) + re.escape(zone)
        alike = re.compile(rf"(?:{digits}\n)*+")
        same = alike.fullmatch("\n".join([*texts, ""])) is not None or all(
            (time := _TIME.fullmatch(each)) is not None and _form(time) == form for each in texts
        )
        # The keys have no zone: if it followed the fraction, `.5Z` would sort after `.55Z`.
        keys = [each.removesuffix(zone).replace(",", ".") for each in texts]
        return ((_IS_TIME, form), keys) if same else (None, ())
    if texts and (times := _parse_written_times(texts)):
        return (_IS_TIME, "written"), times
    unit = _UNIT.fullmatch(texts[0]) if texts else None
    return (None, ()) if unit is None else _parse_measures(texts, unit[2] or "")


def _parse_written_times(texts: Sequence[str]) -> list[str]:
    """Returns times with months in words as texts that sort in their order, such as `2026-11-28 10:00`.

    Returns an empty list unless all times have one form and zone.
    """
    pattern = next((each for each in (_DAY_FIRST, _MONTH_FIRST) if each.fullmatch(texts[0])), None)
    keys: list[str] = []
    forms: set[tuple[int, str | None]] = set()
    for text in texts if pattern is not None else ():
        match = pattern.fullmatch(text)  # pyright: ignore[reportOptionalMemberAccess]
        if match is None:
            return []
        if pattern is _DAY_FIRST:
            day, month, year, clock, zone = match.groups()
        else:
            month, day, clock, before, year, behind = match.groups()
            zone = before or behind
        forms.add((len(clock or ""), zone))
        keys.append(f"{year}-{_MONTHS.index(month.lower()) + 1:02}-{int(day):02} {clock}")
    return keys if len(forms) == 1 else []


def _parse_measures(texts: Sequence[str], unit: str) -> tuple[tuple[str, str] | None, Sequence[float]]:
    """Returns texts as numbers with this unit; the form is None if any of them is no such number."""
    if unit and all(each.rstrip().endswith(unit) for each in texts):
        texts = [each.rstrip().removesuffix(unit) for each in texts]
    used = set[str]().union(*texts)
    if "," in used and all(map(_THOUSANDS.fullmatch, texts)):
        texts = [each.replace(",", "") for each in texts]
        used.discard(",")
    elif "," in used and all(map(_EUROPEAN.fullmatch, texts)):
        texts = [each.replace(".", "").replace(",", ".") for each in texts]
        used.discard(",")
    try:
        numbers = list(map(float, texts)) if used <= _NUMBER_CHARS else []
    except ValueError:  # such as `1-2` or `1.2.3`
        return None, ()
    return ((_IS_NUMBER, unit), numbers) if numbers and all(map(isfinite, numbers)) else (None, ())


def _form(time: re.Match[str]) -> str:
    """Returns the separators and the zone of a time: only times in which these are equal can be compared as texts."""
    return f"{_DIGITS.sub('', time[1][:_SECONDS])} {time[3]}"


def find_far(ordered: npt.NDArray[np.float64], reach: float) -> set[float]:
    """Returns the outliers of sorted numbers: one or two at either end that are farther than `reach` from the next."""
    sides: list[list[float]] = [ordered[: MAX_PER_SIDE + 1].tolist(), ordered[: -MAX_PER_SIDE - 2 : -1].tolist()]
    pairs = [(side, count) for side in sides for count in range(MAX_PER_SIDE, 0, -1)]
    return {number for side, count in pairs if abs(side[count] - side[count - 1]) > reach for number in side[:count]}
