"""What the columns of a table hold: the least and greatest of numbers and dates; how often few or leading values occur.

A column is named by its cell in the first row; where that is itself a number or a date, or is no name, by its number.
"""

import re
from collections import Counter
from contextlib import suppress
from operator import itemgetter
from typing import Final

from msgspec.json import encode

from coatcheck.core.structure.few_values import few_values, leading, leads

_COLUMNS: Final = 40
"""Maximum columns that are examined."""
_RANGES: Final = 12
_COUNTED: Final = 3
"""Maximum columns of which the range is told, and the values are counted."""
_LEAST: Final = 5
"""Minimum rows; fewer are read themselves."""
_NAME: Final = 40
"""Maximum characters of a column's name; a longer one is no name."""
_OF_NUMBERS: Final = b"0123456789+-.eE"
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_LONG_NUMBER: Final = re.compile(r"[-+]?(?:\d{5,}|\d*\.\d+|\d+\.\d*)", re.ASCII)
"""Matches numbers that name no column, as years do."""
_ALIKE: Final = 20
"""Rows that the first one is compared with."""
_BLANKS: Final = " \t\r"
_DATE: Final = re.compile(r"\d{4}([-/.])\d\d\1\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?Z?)?", re.ASCII)
_NO_NAME: Final = re.compile(r"[;:,\"\n]")
"""Matches what separates names on a card."""
_DIGIT: Final = re.compile(r"\d", re.ASCII)


def column_facts(rows: list[list[str]], where: str = "") -> list[str]:
    """Returns what the columns hold below the first row, at most two sorts of facts, ranges first.

    Args:
        rows: all rows that are available, the first one included.
        where: words for these rows, if they are not all: ` of the first 900 rows`.
    """
    names, *body = rows
    ranges: list[str] = []
    counts: list[str] = []
    least = min(map(len, body), default=0)
    for at, name in enumerate(names[:_COLUMNS] if len(body) >= _LEAST else []):
        cells = Counter(map(itemgetter(at), body if at < least else [row for row in body if at < len(row)]))
        cells = _stripped(cells)
        shown = name.strip()
        if not 0 < len(shown) <= _NAME or _NO_NAME.search(shown) or _NUMBER.fullmatch(shown) or _DATE.fullmatch(shown):
            shown = f"column {at + 1}"
        ordered = _ordered(cells)
        few = bool(few_values(cells, len(body)))
        if few or (ordered is None and leads(cells, len(body))):
            told = leading({encode(value).decode(): count for value, count in cells.items()})
            counts.append(f"Counts of {shown}{where}: {told}")
        elif ordered is not None and cells.total() * 2 > len(body):
            ranges.append(f"{shown} {ordered[0]} to {ordered[1]}")
    told = [f"Ranges{where}: {'; '.join(ranges[:_RANGES])}"] if ranges else []
    return [*told, *counts[:_COUNTED]]


def begins_with_values(rows: list[list[str]]) -> bool:
    """Returns whether the first row is one like the next: a date or a long number where they have these."""
    first, *others = [list(map(str.strip, row)) for row in rows[: 1 + _ALIKE]]
    columns = [[row[at] for row in others if at < len(row)] for at in range(len(first))]
    return any(
        pattern.fullmatch(cell) is not None and all(map(pattern.fullmatch, filter(None, column))) and any(column)
        for cell, column in zip(first, columns, strict=True)
        for pattern in (_DATE, _LONG_NUMBER)
    )


def _stripped(cells: Counter[str]) -> Counter[str]:
    """Returns cells without the blanks around them, and without those that are blank."""
    text = "\n".join(["", *cells, ""])
    if any(f"\n{blank}" in text or f"{blank}\n" in text for blank in _BLANKS):
        plain: Counter[str] = Counter()
        for each, count in cells.items():
            plain[each.strip(_BLANKS)] += count
        cells = plain
    del cells[""]
    return cells


def _ordered(cells: Counter[str]) -> tuple[str, str] | None:
    """Returns the least and the greatest of several numbers, or of dates that are written alike; None for others."""
    if len(cells) < 2:  # noqa: PLR2004 - one value has no range
        return None
    if not "".join(cells).encode("utf-8", "replace").translate(None, _OF_NUMBERS):
        with suppress(ValueError):  # 2026-03-01
            written, values = list(cells), list(map(float, cells))
            return written[values.index(min(values))], written[values.index(max(values))]
    dated = _DATE.fullmatch(next(iter(cells))) is not None and all(map(_DATE.fullmatch, cells))
    if dated and len({_DIGIT.sub("0", each) for each in cells}) == 1:
        return min(cells), max(cells)
    return None
