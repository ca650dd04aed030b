"""What one field of many records has: how often each of few values, or from which to which number or time."""

import re
from collections import Counter
from collections.abc import Sequence
from math import isfinite
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct

VALUES: Final = 64
"""Maximum different values of a field that are counted."""
_CHARS: Final = 200
"""Maximum characters of a value that is counted."""
_THOUSANDS: Final = re.compile(r"\s*[-+]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?\s*", re.ASCII)
_EUROPEAN: Final = re.compile(r"\s*[-+]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+\s*", re.ASCII)
_DIGITS_OF: Final = frozenset("0123456789.+-eE ")
"""Characters of numbers as programs write them."""
_UNIT: Final = re.compile(r"(\s*[-+]?[\d.,]*\d)(\s?(?:%|[a-zA-Zµ]{1,5}))?\s*", re.ASCII)
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
"""Characters of a time up to its seconds."""
_HUGE: Final = 1 << 1000
"""A number below this has a float."""
MAX_PER_SIDE: Final = 2
"""Maximum numbers on one side that are far from all others; of more, none is an exception."""
_IS_NUMBER: Final = "number"
_IS_TIME: Final = "time"


class Extreme(Struct, frozen=True):
    """The least or the greatest value of a field."""

    value: object
    """As the payload has it."""
    record: int
    """The number of the first record that has it, from 0."""
    alone: bool
    """Whether no other record has it."""


class FieldStatistic(Struct, frozen=True):
    """What is known of a field. Everything is true of all its records."""

    present: int
    """Records that have it."""
    counts: Counter[object] | None
    """How often each value occurs; None: there are more than 64 different ones, or a long one."""
    least: Extreme | None = None
    greatest: Extreme | None = None
    """Of a field whose values are all numbers, or all times in one format."""
    is_number: bool = False


Keys = Sequence[float] | Sequence[str]


def examine(values: Sequence[object]) -> FieldStatistic:
    """Returns the statistic of a field, given its values, one per record, None where there is none."""
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
    """Returns how often each value occurs, with those that are known; None if they are many, long, or mixed."""
    counts: Counter[object] = Counter() if earlier_counts is None else earlier_counts
    before = len(counts)
    types = {*map(type, values), *map(type, counts)}  # true and 1 are one value to a counter
    counts.update(values)
    if len(counts) > VALUES or (bool in types and len(types) > 1):
        return None
    long = len(counts) > before and any(isinstance(each, str) and len(each) > _CHARS for each in counts)
    return None if long else counts


def make_sort_keys(values: Sequence[object]) -> tuple[tuple[str, str] | None, Keys]:
    """Returns by what values are compared, and of which form they are: numbers with their unit, or times.

    No form if any value is of another one than the others, or not finite.
    """
    types = {*map(type, values)}
    if types and types <= {int, float}:
        numbers = cast("Sequence[float]", values)
        finite = float not in types or all(map(isfinite, numbers))
        return ((_IS_NUMBER, ""), numbers) if finite and -_HUGE < min(numbers) <= max(numbers) < _HUGE else (None, ())
    texts = cast("Sequence[str]", values) if types == {str} else ()
    first = _TIME.fullmatch(texts[0]) if texts else None
    if first is not None:
        form, zone = _form(first), first[3] or ""
        digits = _DIGITS.sub("[0-9]", re.escape(first[1])) + re.escape(zone)
        alike = re.compile(rf"(?:{digits}\n)*+")
        same = alike.fullmatch("\n".join([*texts, ""])) is not None or all(
            (time := _TIME.fullmatch(each)) is not None and _form(time) == form for each in texts
        )
        # Behind the zone, fractions of a second would be in order only if all had the same length.
        keys = [each.removesuffix(zone).replace(",", ".") for each in texts]
        return ((_IS_TIME, form), keys) if same else (None, ())
    if texts and (times := _parse_written_times(texts)):
        return (_IS_TIME, "written"), times
    unit = _UNIT.fullmatch(texts[0]) if texts else None
    return (None, ()) if unit is None else _parse_measures(texts, unit[2] or "")


def _parse_written_times(texts: Sequence[str]) -> list[str]:
    """Returns times with months in words in the form of `2026-11-28 10:00`; none unless all have one form and zone."""
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
    """Returns texts as numbers of a unit; no form if any is none."""
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
        numbers = list(map(float, texts)) if used <= _DIGITS_OF else []
    except ValueError:  # several signs, or points
        return None, ()
    return ((_IS_NUMBER, unit), numbers) if numbers and all(map(isfinite, numbers)) else (None, ())


def _form(time: re.Match[str]) -> str:
    """Returns what two times that are compared as texts have in common."""
    return f"{_DIGITS.sub('', time[1][:_SECONDS])} {time[3]}"


def find_far(ordered: npt.NDArray[np.float64], reach: float) -> set[float]:
    """Returns the one or two numbers at either end of sorted ones that are farther than `reach` from the next."""
    sides: list[list[float]] = [ordered[: MAX_PER_SIDE + 1].tolist(), ordered[: -MAX_PER_SIDE - 2 : -1].tolist()]
    pairs = [(side, few) for side in sides for few in range(MAX_PER_SIDE, 0, -1)]
    return {number for side, few in pairs if abs(side[few] - side[few - 1]) > reach for number in side[:few]}
